package images

import (
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func (svc *Service) describeImages(in *api.Call) (any, error) {
	ids, owners := in.Form.List("ImageId"), in.Form.List("Owner")
	if err := ec2query.WellFormed("ami", ids); err != nil {
		return nil, err
	}
	if id := ec2query.Missing(ids, func(id string) bool { return svc.find(id) != nil }); id != "" {
		return nil, api.Refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	}
	deprecated, err := in.Form.Bool("IncludeDeprecated")
	if err != nil {
		return nil, api.Refuse("InvalidParameterValue", "%s", err)
	}
	found, err := ec2query.Choose(in, svc.images, ec2query.Attributes[*image]{
		"image-id":            ec2query.One(func(i *image) string { return i.id }),
		"name":                ec2query.One(func(i *image) string { return i.name }),
		"state":               ec2query.One(func(*image) string { return "available" }),
		"architecture":        ec2query.One(func(i *image) string { return i.arch }),
		"owner-id":            ec2query.One(func(i *image) string { return i.owner }),
		"owner-alias":         ec2query.One((*image).ownerAlias),
		"image-type":          ec2query.One(func(*image) string { return "machine" }),
		"is-public":           ec2query.One(func(i *image) string { return strconv.FormatBool(i.ownerAlias() != "") }),
		"virtualization-type": ec2query.One(func(*image) string { return "hvm" }),
		"root-device-type":    ec2query.One(func(*image) string { return "ebs" }),
	}, func(i *image) map[string]string { return i.tags })
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, i := range found {
		if len(ids) > 0 && !slices.Contains(ids, i.id) || !svc.owned(i, owners) ||
			!deprecated && len(ids) == 0 && i.owner != svc.account.ID && i.deprecatedAt(in.Now) {
			continue
		}
		rows = append(rows, api.NewRow(i.id, imageElement(i)))
	}
	return ec2query.Page(in, "imagesSet", rows, 1, 1000)
}

// owned reports whether one of the owners, an account, "self" or "amazon", owns
// the image; no owners means anyone.
func (svc *Service) owned(i *image, owners []string) bool {
	return len(owners) == 0 || slices.ContainsFunc(owners, func(o string) bool {
		return o == i.owner || o == i.ownerAlias() || o == "self" && i.owner == svc.account.ID
	})
}

func imageElement(i *image) query.Element {
	deprecation := query.Element{}
	if !i.deprecated.IsZero() {
		deprecation = query.Text("deprecationTime", ec2query.Stamp(i.deprecated))
	}
	return query.Group("item",
		query.Text("imageId", i.id), query.Text("name", i.name), query.Text("imageLocation", "amazon/"+i.name),
		query.Text("imageState", "available"), query.Text("imageOwnerId", i.owner), query.Opt("imageOwnerAlias", i.ownerAlias()),
		query.Text("creationDate", ec2query.Stamp(i.created)), deprecation, query.Bool("isPublic", i.ownerAlias() != ""),
		query.Text("architecture", i.arch), query.Text("imageType", "machine"), query.Text("platformDetails", "Linux/UNIX"),
		query.Text("rootDeviceType", "ebs"), query.Text("rootDeviceName", "/dev/xvda"), query.Text("virtualizationType", "hvm"),
		query.Text("hypervisor", "xen"), query.Bool("enaSupport", true), ec2query.TagSet(i.tags))
}
