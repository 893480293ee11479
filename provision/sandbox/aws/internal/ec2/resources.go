package ec2

import "github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"

// Templates are the launch templates.
func (svc *Service) Templates() []api.Resource { return svc.templates.Resources() }
