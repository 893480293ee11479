package aws

import (
	"fmt"
	"maps"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// CopyImage makes an image of the account's own out of another, as a build of
// custom images does: under a name and tags by which a selector finds it. It
// returns the copy's id.
func (c *Cloud) CopyImage(id, name string, tags map[string]string) (string, error) {
	c.account.Lock()
	defer c.account.Unlock()
	from := c.st.image(id)
	if from == nil || name == "" {
		return "", fmt.Errorf("copying image %q to %q: there is no such image, or no name", id, name)
	}
	i := newImage(name, from.arch, c.account.ID, c.account.Clock.Now())
	if c.st.image(i.id) != nil {
		return "", fmt.Errorf("copying image %s to %q: the account has an image of that name", id, name)
	}
	i.tags = api.WithTags(tags)
	c.st.images = append(c.st.images, i)
	return i.id, nil
}

func imageChanges() map[string]operation {
	return map[string]operation{
		"CopyImage": {params: []string{"SourceImageId", "SourceRegion", "Name", "Description", "ClientToken", "CopyImageTags",
			"TagSpecification.#.ResourceType", "TagSpecification.#.Tag.#.Key", "TagSpecification.#.Tag.#.Value"}, run: copyImage},
		"EnableImageDeprecation": {params: []string{"ImageId", "DeprecateAt"}, run: deprecateImage},
	}
}

// copyImage copies an image of the region; the copy is there at once, and is not
// deprecated until somebody says so.
func copyImage(in *call) (any, error) {
	get := in.Form.Get
	if region := get("SourceRegion"); region != in.cloud.account.Region {
		return nil, api.Refuse("InvalidParameterValue", "The emulator has images of %s only, not of SourceRegion '%s'.", in.cloud.account.Region, region)
	}
	from, err := in.imageAt(get("SourceImageId"))
	if err != nil {
		return nil, err
	}
	tags, err := tagsOnly(in.Form, "image")
	if err != nil {
		return nil, err
	}
	too, err := in.Form.Bool("CopyImageTags")
	if err != nil {
		return nil, api.Refuse("InvalidParameterValue", "%s", err)
	}
	token := get("ClientToken")
	for _, i := range in.st.images {
		if i.owner == in.cloud.account.ID && i.name == get("Name") {
			if token != "" && i.token == token {
				return []query.Element{query.Text("imageId", i.id)}, nil // a repeated request
			}
			return nil, api.Refuse("InvalidAMIName.Duplicate", "AMI name %s is already in use by AMI %s", i.name, i.id)
		}
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	i := newImage(get("Name"), from.arch, in.cloud.account.ID, in.Now)
	i.id, i.deprecated, i.token = partID("ami", in.cloud.account.ID+"/"+i.name, 0), time.Time{}, token
	if too {
		maps.Copy(i.tags, from.tags)
	}
	maps.Copy(i.tags, tags)
	in.st.images = append(in.st.images, i)
	return []query.Element{query.Text("imageId", i.id)}, nil
}

// imageAt finds an image by its id.
func (in *call) imageAt(id string) (*image, error) {
	if err := wellFormed("ami", []string{id}); err != nil {
		return nil, err
	}
	if i := in.st.image(id); i != nil {
		return i, nil
	}
	return nil, api.Refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
}

// deprecateImage sets the day from which on others do not find an image any more.
func deprecateImage(in *call) (any, error) {
	i, err := in.imageAt(in.Form.Get("ImageId"))
	if err != nil {
		return nil, err
	}
	if i.owner != in.cloud.account.ID {
		return nil, api.Refuse("AuthFailure", "Not authorized for image:%s", i.id)
	}
	at, err := time.Parse(time.RFC3339, in.Form.Get("DeprecateAt"))
	if err != nil || !at.After(in.Now) {
		return nil, api.Refuse("InvalidParameterValue", "DeprecateAt '%s' is no time in the future.", in.Form.Get("DeprecateAt"))
	}
	if in.Dry {
		return nil, api.ErrDryRun()
	}
	i.deprecated = at
	return []query.Element{query.Bool("return", true)}, nil
}

// deprecatedAt tells whether an image is deprecated; without a date it never is.
func (i *image) deprecatedAt(now time.Time) bool {
	return !i.deprecated.IsZero() && !now.Before(i.deprecated)
}
