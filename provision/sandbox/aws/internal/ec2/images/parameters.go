package images

import "slices"

// Parameter finds the newest version of a parameter.
func (svc *Service) Parameter(name string) (Parameter, bool) {
	for _, i := range svc.images {
		if slices.Contains(i.params, name) {
			version := 1
			if name == i.line {
				version = i.version
			}
			return Parameter{i.id, version, i.created}, true
		}
	}
	return Parameter{}, false
}

// ParameterAt finds a version of a parameter: those that recommend an image have one for
// every release, the others have one alone.
func (svc *Service) ParameterAt(name string, version int) (Parameter, bool) {
	for _, i := range svc.images {
		if i.line == name && i.version == version {
			return Parameter{i.id, version, i.created}, true
		}
	}
	p, found := svc.Parameter(name)
	return p, found && p.Version == version
}

// Parameters are the names of all parameters that lead to an image, in no order;
// several images may have the same one.
func (svc *Service) Parameters() []string {
	var out []string
	for _, i := range svc.images {
		out = append(out, i.params...)
	}
	return out
}
