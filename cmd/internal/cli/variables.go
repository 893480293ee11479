package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/poolwright/poolwright/reconciler/variables"
)

// variableFlags are the variables that a command is given.
type variableFlags struct {
	values []string
	file   string
}

func (f *variableFlags) addTo(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.values, "substitute", nil, "NAME=VALUE: the value of the variable ${NAME}, over all others; may be repeated; no secrets, which other processes could read")
	flags.StringVar(&f.file, "sync-file", "", "file with the Sync's manifest, for its variables, and if wanted the ConfigMaps and Secrets that they come from")
}

// input are the variables, once each is of the right form.
func (f *variableFlags) input() (variables.Input, error) {
	out := variables.Input{SyncFile: f.file}
	for _, one := range f.values {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return out, fmt.Errorf("--substitute %q is not of the form NAME=VALUE", one)
		}
		if out.Values == nil {
			out.Values = map[string]string{}
		}
		out.Values[name] = value
	}
	return out, nil
}
