package published

import (
	"fmt"
	"regexp"

	"github.com/poolwright/poolwright/provision/pricelist"
)

// maxUSD is more than an hour of any instance type costs.
const maxUSD = 100_000

// The names that AWS gives, "us-gov-west-1", "us-east-1a" or "us-west-2-lax-1a", and "u-6tb1.112xlarge". Outputs have
// them as they are.
var (
	region       = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]{2,12}){1,3}-[0-9]{1,2}$`)
	zone         = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+){2,6}$`)
	instanceType = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*\.[a-z0-9]+(-[a-z0-9]+)*$`)
)

// maxName is how many bytes a name has at most.
const maxName = 63

// check returns what of a list cannot be from AWS: whoever may write the ConfigMap, or the file, may have written it.
func check(l *pricelist.List) error {
	if !isName(region, l.Region) {
		return fmt.Errorf("its region %.80q is not the name of one", l.Region)
	}
	if err := checkPrices(l.OnDemand); err != nil {
		return err
	}
	for name, of := range l.Spot {
		if !isName(zone, name) {
			return fmt.Errorf("its zone %.80q is not the name of one", name)
		}
		if err := checkPrices(of); err != nil {
			return err
		}
	}
	for kind, zones := range l.Zones {
		if !isName(instanceType, kind) {
			return fmt.Errorf("its instance type %.80q is not the name of one", kind)
		}
		for _, name := range zones {
			if !isName(zone, name) {
				return fmt.Errorf("its zone %.80q is not the name of one", name)
			}
		}
	}
	return nil
}

func checkPrices(of map[string]float64) error {
	for kind, usd := range of {
		switch {
		case !isName(instanceType, kind):
			return fmt.Errorf("its instance type %.80q is not the name of one", kind)
		case !(usd > 0 && usd < maxUSD):
			return fmt.Errorf("its price of %s is %v, and not more than 0 and less than %v", kind, usd, maxUSD)
		}
	}
	return nil
}

func isName(form *regexp.Regexp, name string) bool {
	return len(name) <= maxName && form.MatchString(name)
}
