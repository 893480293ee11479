package engine

import (
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"
)

// noImage is a well-formed image id that no image has.
const noImage = "ami-00000000000000000"

// ReplaceInvalidAliases replaces AMI aliases on which the provider would end the process
// by an image id that does not exist, so that the class reports that it found no
// image. A known family is kept as the class's own: the drift hash then stays as
// it was, and no node is replaced because of a typing error. It returns the
// aliases it replaced.
func ReplaceInvalidAliases(class *awsv1.EC2NodeClass) []string {
	var bad []string
	for i := range class.Spec.AMISelectorTerms {
		term := &class.Spec.AMISelectorTerms[i]
		if term.Alias == "" {
			continue
		}
		name, version, ok := strings.Cut(term.Alias, "@")
		family := familyOf(name)
		if ok && family != "" && !strings.Contains(version, "@") {
			continue
		}
		bad = append(bad, term.Alias)
		*term = awsv1.AMISelectorTerm{ID: noImage}
		if class.Spec.AMIFamily == nil && family != "" {
			class.Spec.AMIFamily = &family
		}
	}
	return bad
}

// familyOf is the family that an alias names in small letters, or nothing.
func familyOf(name string) string {
	for _, family := range aliasFamilies() {
		if strings.ToLower(family) == name {
			return family
		}
	}
	return ""
}

func aliasFamilies() []string {
	return []string{
		awsv1.AMIFamilyAL2, awsv1.AMIFamilyAL2023, awsv1.AMIFamilyBottlerocket,
		awsv1.AMIFamilyWindows2019, awsv1.AMIFamilyWindows2022, awsv1.AMIFamilyWindows2025,
	}
}

// aliasTransform runs on every EC2NodeClass before it enters the cache, after the
// transform that the cache had anyway.
func aliasTransform(logger logr.Logger, first toolscache.TransformFunc) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if first != nil {
			var err error
			if object, err = first(object); err != nil {
				return nil, err
			}
		}
		if class, ok := object.(*awsv1.EC2NodeClass); ok {
			for _, alias := range ReplaceInvalidAliases(class) {
				logger.Error(nil, "malformed AMI alias: no image will be found; write family@version with one @ and a known family in small letters",
					"EC2NodeClass", class.Name, "alias", alias, "families", aliasFamilies())
			}
		}
		return object, nil
	}
}
