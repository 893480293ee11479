package lint

const (
	useUnits     = "use the units h, m and s, as in 336h or 1h30m"
	useNameChars = "begin with a letter or digit, and use letters, digits, _ and - only"
)

// remedies are how values are written, by the patterns of the definitions of Poolwright and of Karpenter that do not explain themselves.
var remedies = map[string]string{
	`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`:                useUnits,
	`^([0-9]+(s|m|h))+$`:                              useUnits,
	`^(([0-9]+(s|m|h))+|Never)$`:                      useUnits + ", or write Never",
	`^[0-9]{12}$`:                                     "give the account's twelve digits, in quotes",
	`^[a-z]{2}(-[a-z]+)+-[0-9]+$`:                     "give a region such as eu-west-1",
	`^1\.[0-9]{2}$`:                                   `give major and minor version, as in "1.33"`,
	`^(https|http)://[^@\s]+$`:                        "give an https address without credentials in it",
	`^v[0-9]+\.[0-9]+\.[0-9]+([-.][0-9A-Za-z.-]+)?$`:  "write the version with its v, as in v0.19.3",
	`^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)*$`: "leave the tag out: the version is the tag",
	`^[0-9a-f]{40}$`:                                  "give the whole hash of a commit, 40 digits",
	`^[0-9A-Za-z][A-Za-z0-9_-]{0,62}$`:                useNameChars,
	`^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$`:                useNameChars,
	`^[A-Za-z0-9+=,.@_-]{1,64}$`:                      "use letters, digits and + = , . @ _ - only, at most 64",
	`^[A-Za-z0-9+=,.@_-]{1,128}$`:                     "use letters, digits and + = , . @ _ - only, at most 128",
	`^[A-Za-z0-9_-]{1,80}$`:                           "use letters, digits and _ - only, at most 80",
	`^subnet-[0-9a-f]{8,17}$`:                         "give an id such as subnet-0123456789abcdef0",
	`^sg-[0-9a-f]{8,17}$`:                             "give an id such as sg-0123456789abcdef0",
	`subnet-[0-9a-z]+`:                                "give an id such as subnet-0123456789abcdef0",
	`sg-[0-9a-z]+`:                                    "give an id such as sg-0123456789abcdef0",
	`ami-[0-9a-z]+`:                                   "give an id such as ami-0123456789abcdef0",
	`^cr-[0-9a-z]+$`:                                  "give an id such as cr-0123456789abcdef0",
	`^pg-[0-9a-z]+$`:                                  "give an id such as pg-0123456789abcdef0",
}

// remedy is how a value is written of which a message shows nothing but the pattern that it does not match.
func remedy(pattern string) string {
	if known := remedies[pattern]; known != "" {
		return ": " + known
	}
	return ""
}
