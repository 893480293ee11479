package engine

import (
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"
)

// noImage is a well-formed image id that no image has.
const noImage = "ami-00000000000000000"

// tameAliases rewrites AMI aliases on which the provider would end the process.
// It keeps the family where that is a known one, so that the class's drift hash
// stays as it was and no node is replaced because of a typing mistake; the rest
// becomes a version that does not exist, and the class reports that no image was
// found. It returns the aliases it rewrote.
func tameAliases(class *awsv1.EC2NodeClass) []string {
	var bad []string
	for i := range class.Spec.AMISelectorTerms {
		term := &class.Spec.AMISelectorTerms[i]
		if term.Alias == "" {
			continue
		}
		family, version, ok := strings.Cut(term.Alias, "@")
		known := slices.Contains(aliasFamilies(), family)
		if ok && known && !strings.Contains(version, "@") {
			continue
		}
		bad = append(bad, term.Alias)
		if known {
			term.Alias = family + "@" + strings.ReplaceAll(version, "@", "_")
			continue
		}
		term.Alias, term.ID = "", noImage
	}
	return bad
}

// aliasFamilies are the families as aliases spell them.
func aliasFamilies() []string {
	families := []string{
		awsv1.AMIFamilyAL2, awsv1.AMIFamilyAL2023, awsv1.AMIFamilyBottlerocket,
		awsv1.AMIFamilyWindows2019, awsv1.AMIFamilyWindows2022, awsv1.AMIFamilyWindows2025,
	}
	for i, family := range families {
		families[i] = strings.ToLower(family)
	}
	return families
}

// tameTransform runs on every EC2NodeClass before it enters the cache, after the
// transform that the cache had anyway.
func tameTransform(logger logr.Logger, first toolscache.TransformFunc) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if first != nil {
			var err error
			if object, err = first(object); err != nil {
				return nil, err
			}
		}
		if class, ok := object.(*awsv1.EC2NodeClass); ok {
			for _, alias := range tameAliases(class) {
				logger.Error(nil, "malformed AMI alias: no image will be found; write family@version with one @ and a known family",
					"EC2NodeClass", class.Name, "alias", alias, "families", aliasFamilies())
			}
		}
		return object, nil
	}
}
