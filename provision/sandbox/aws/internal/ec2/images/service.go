// Package images are machine images: those that AWS publishes for EKS, of every
// family, architecture, variant, Kubernetes version and release, and the account's
// own copies; with the parameters of Systems Manager that lead to them, which
// package ssm shows. There are no snapshots behind them. Start with Service.
package images

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Service has the images of the account's region.
type Service struct {
	account *api.Account
	version string // of Kubernetes, of the cluster
	images  []*image
}

// Parameter is a public parameter that leads to an image.
type Parameter struct {
	ImageID string
	Version int
	Created time.Time
}

var releaseForm = regexp.MustCompile(`^v20\d{6}$`)

// IsRelease reports whether a text is a release of Amazon Linux images, as in
// v20250505.
func IsRelease(text string) bool { return releaseForm.MatchString(text) }

// New has the images of these releases of Amazon Linux for all versions of
// Kubernetes, among them the cluster's.
func New(account *api.Account, version string, releases []string) *Service {
	return &Service{account: account, version: version, images: newImages(version, releases)}
}

// Clone copies deep enough that nothing later shows in it.
func (svc *Service) Clone() *Service {
	out := *svc
	out.images = api.Clones(svc.images)
	for _, i := range out.images {
		i.tags = maps.Clone(i.tags)
	}
	return &out
}

// Operations are those of EC2 on images.
func (svc *Service) Operations() map[string]api.Operation {
	return map[string]api.Operation{
		"DescribeImages": {Params: []string{"Filter.#.Name", "Filter.#.Value.#", "MaxResults", "NextToken", "ImageId.#", "Owner.#", "IncludeDeprecated", "IncludeDisabled"},
			Read: true, Run: svc.describeImages},
		"CopyImage": {Params: []string{"SourceImageId", "SourceRegion", "Name", "Description", "ClientToken", "CopyImageTags",
			"TagSpecification.#.ResourceType", "TagSpecification.#.Tag.#.Key", "TagSpecification.#.Tag.#.Value"}, Run: svc.copyImage},
		"EnableImageDeprecation": {Params: []string{"ImageId", "DeprecateAt"}, Run: svc.deprecateImage},
	}
}

// Name is the name of an image, "" for an id that is not in this account.
func (svc *Service) Name(id string) string {
	if i := svc.find(id); i != nil {
		return i.name
	}
	return ""
}

// Architecture is that of an image, "" for an id that is not in this account.
func (svc *Service) Architecture(id string) string {
	if i := svc.find(id); i != nil {
		return i.arch
	}
	return ""
}

// Tags are those of an image, nil for an id that is not in this account.
func (svc *Service) Tags(id string) map[string]string {
	if i := svc.find(id); i != nil {
		return i.tags
	}
	return nil
}

func (svc *Service) find(id string) *image {
	for _, i := range svc.images {
		if i.id == id {
			return i
		}
	}
	return nil
}

// Publish makes a release of the Amazon Linux images, which the parameters
// recommend from now on. The older images stay.
func (svc *Service) Publish(release string) error {
	if !IsRelease(release) {
		return fmt.Errorf("publishing release %q: it is not of the form v20261120", release)
	}
	version := 0
	for _, i := range svc.images {
		if strings.HasSuffix(i.name, "-"+release) {
			return fmt.Errorf("publishing release %q: it is there already", release)
		}
		version = max(version, i.version)
		i.params = slices.DeleteFunc(slices.Clone(i.params), func(name string) bool { return i.version > 0 && strings.HasSuffix(name, recommended) })
	}
	for _, k8s := range kubernetesVersions(svc.version) {
		svc.images = append(svc.images, amazonLinux(k8s, release, version+1, true)...)
	}
	return nil
}

// Copy makes an image of the account's own out of another and returns its id.
func (svc *Service) Copy(id, name string, tags map[string]string) (string, error) {
	from := svc.find(id)
	if from == nil || name == "" {
		return "", fmt.Errorf("copying image %q to %q: there is no such image, or no name", id, name)
	}
	i := newImage(name, from.arch, svc.account.ID, svc.account.Clock.Now())
	if svc.find(i.id) != nil {
		return "", fmt.Errorf("copying image %s to %q: the account has an image of that name", id, name)
	}
	i.tags = api.WithTags(tags)
	svc.images = append(svc.images, i)
	return i.id, nil
}
