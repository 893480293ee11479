package images

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
)

// Accounts that publish the images, as in the commercial regions.
const (
	eksImages          = "602401143452"
	bottlerocketImages = "092701018921"
)

// image is a machine image, with the SSM parameters that point to it.
type image struct {
	id, name, arch, owner string
	created, deprecated   time.Time
	params                []string
	// line is the parameter that recommended the image once it was the newest, and
	// version the parameter's at that time.
	line    string
	version int
	request ec2query.Request // that made it
	tags    map[string]string
}

// kubernetesVersions are those for which images exist; Amazon Linux 2 ended
// with 1.32.
func kubernetesVersions(cluster string) []string {
	out := []string{"1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"}
	if !slices.Contains(out, cluster) {
		out = append(out, cluster)
	}
	return out
}

// newImages lists an image for every family, architecture, variant, Kubernetes
// version and release. Ids follow from the names, so they are all different,
// and the same in every sandbox.
func newImages(version string, releases []string) []*image {
	var out []*image
	for _, k8s := range kubernetesVersions(version) {
		for n, release := range releases {
			if day(release).Before(since(k8s)) {
				continue
			}
			out = append(out, amazonLinux(k8s, release, n+1, n == len(releases)-1)...)
		}
		out = append(out, bottlerocket(k8s)...)
	}
	return out
}

// since is the day on which EKS began to offer a Kubernetes version, before which
// no image of it was published; zero where no release here is older than that.
func since(k8s string) time.Time {
	return map[string]time.Time{
		"1.33": time.Date(2025, 5, 29, 0, 0, 0, 0, time.UTC),
		"1.34": time.Date(2025, 10, 2, 0, 0, 0, 0, time.UTC),
	}[k8s]
}

// amazonLinux are the images of a release for a Kubernetes version.
func amazonLinux(k8s, release string, version int, latest bool) []*image {
	out := amazonLinux2023(k8s, release, latest)
	if k8s < "1.33" {
		out = append(out, amazonLinux2(k8s, release, latest)...)
	}
	for _, i := range out {
		i.version = version
	}
	return out
}

// recommended ends the name of the parameter that leads to the newest release.
const recommended = "/recommended/image_id"

func newImage(name, arch, owner string, created time.Time) *image {
	sum := sha256.Sum256([]byte(name))
	return &image{
		id: "ami-0" + hex.EncodeToString(sum[:8]), name: name, arch: arch, owner: owner,
		created: created, deprecated: created.AddDate(2, 0, 0), tags: map[string]string{},
	}
}

// day reads the date of a release; the config has been checked.
func day(release string) time.Time {
	t, err := time.Parse("v20060102", release)
	if err != nil {
		return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return t
}

func amazonLinux2023(k8s, release string, latest bool) []*image {
	var out []*image
	for _, build := range [][2]string{{"x86_64", "standard"}, {"x86_64", "nvidia"}, {"x86_64", "neuron"}, {"arm64", "standard"}, {"arm64", "nvidia"}} {
		arch, variant := build[0], build[1]
		i := newImage(fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", arch, variant, k8s, release), arch, eksImages, day(release))
		i.point(fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/", k8s, arch, variant), i.name, latest)
		out = append(out, i)
	}
	return out
}

func amazonLinux2(k8s, release string, latest bool) []*image {
	var out []*image
	for _, build := range [][3]string{{"x86_64", "", "node"}, {"arm64", "-arm64", "arm64-node"}, {"x86_64", "-gpu", "gpu-node"}} {
		i := newImage(fmt.Sprintf("amazon-eks-%s-%s-%s", build[2], k8s, release), build[0], eksImages, day(release))
		i.point(fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2%s/", k8s, build[1]), i.name, latest)
		out = append(out, i)
	}
	return out
}

// bottlerocketReleases are version and date, oldest first.
func bottlerocketReleases() [][2]string {
	return [][2]string{{"1.37.0", "v20250411"}, {"1.46.0", "v20250902"}, {"1.52.0", "v20260120"}, {"1.58.0", "v20260618"}, {"1.64.0", "v20261029"}}
}

func bottlerocket(k8s string) []*image {
	var out []*image
	releases := bottlerocketReleases()
	for n, r := range releases {
		for _, variant := range []string{"", "-nvidia"} {
			for _, arch := range []string{"x86_64", "arm64"} {
				base := fmt.Sprintf("bottlerocket-aws-k8s-%s%s-%s-v%s", k8s, variant, arch, r[0])
				commit := sha256.Sum256([]byte(r[0]))
				i := newImage(base+"-"+hex.EncodeToString(commit[:4]), arch, bottlerocketImages, day(r[1]))
				root := fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/", k8s, variant, arch)
				i.params = append(i.params, root+r[0]+"/image_id", root+r[0]+"-"+hex.EncodeToString(commit[:4])+"/image_id")
				if n == len(releases)-1 {
					i.params = append(i.params, root+"latest/image_id")
				}
				out = append(out, i)
			}
		}
	}
	return out
}

// point adds the parameters below root: by release, and the recommended one.
func (i *image) point(root, release string, latest bool) {
	i.params = append(i.params, root+release+"/image_id")
	i.line = strings.TrimSuffix(root, "/") + recommended
	if latest {
		i.params = append(i.params, i.line)
	}
}

func (i *image) ownerAlias() string {
	if i.owner == eksImages || i.owner == bottlerocketImages {
		return "amazon"
	}
	return ""
}

// deprecatedAt reports whether an image is deprecated; without a date it never is.
func (i *image) deprecatedAt(now time.Time) bool {
	return !i.deprecated.IsZero() && !now.Before(i.deprecated)
}
