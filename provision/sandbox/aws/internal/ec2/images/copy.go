package images

import (
	"maps"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// copyImage copies an image of the region; the copy is there at once, and is not
// deprecated until EnableImageDeprecation.
func (svc *Service) copyImage(in *api.Call) (any, error) {
	get := in.Form.Get
	if region := get("SourceRegion"); region != svc.account.Region {
		return nil, api.Refuse("InvalidParameterValue", "The emulator has images of %s only, not of SourceRegion '%s'.", svc.account.Region, region)
	}
	from, err := svc.imageAt(get("SourceImageId"))
	if err != nil {
		return nil, err
	}
	tags, err := ec2query.TagsOnly(in.Form, "image")
	if err != nil {
		return nil, err
	}
	too, err := in.Form.Bool("CopyImageTags")
	if err != nil {
		return nil, api.Refuse("InvalidParameterValue", "%s", err)
	}
	if before, again, err := ec2query.Repeated(in, svc.images, func(i *image) ec2query.Request { return i.request }); err != nil {
		return nil, err
	} else if again {
		return []query.Element{query.Text("imageId", before.id)}, nil
	}
	for _, i := range svc.images {
		if i.owner == svc.account.ID && i.name == get("Name") {
			return nil, api.Refuse("InvalidAMIName.Duplicate", "AMI name %s is already in use by AMI %s", i.name, i.id)
		}
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	i := newImage(get("Name"), from.arch, svc.account.ID, in.Now)
	i.id, i.deprecated, i.request = ec2query.PartID("ami", svc.account.ID+"/"+i.name, 0), time.Time{}, ec2query.RequestOf(in)
	if too {
		maps.Copy(i.tags, from.tags)
	}
	maps.Copy(i.tags, tags)
	svc.images = append(svc.images, i)
	return []query.Element{query.Text("imageId", i.id)}, nil
}

// imageAt finds an image by its id.
func (svc *Service) imageAt(id string) (*image, error) {
	if err := ec2query.WellFormed("ami", []string{id}); err != nil {
		return nil, err
	}
	if i := svc.find(id); i != nil {
		return i, nil
	}
	return nil, api.Refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
}

// deprecateImage sets the minute from which on others do not find an image any more.
func (svc *Service) deprecateImage(in *api.Call) (any, error) {
	i, err := svc.imageAt(in.Form.Get("ImageId"))
	if err != nil {
		return nil, err
	}
	if i.owner != svc.account.ID {
		return nil, api.Refuse("AuthFailure", "Not authorized for image:%s", i.id)
	}
	at, err := time.Parse(time.RFC3339, in.Form.Get("DeprecateAt"))
	if err != nil || !at.After(in.Now) || at.After(in.Now.AddDate(10, 0, 0)) {
		return nil, api.Refuse("InvalidParameterValue", "DeprecateAt '%s' is no time in the next ten years.", in.Form.Get("DeprecateAt"))
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	i.deprecated = at.Round(time.Minute)
	return []query.Element{query.Bool("return", true)}, nil
}
