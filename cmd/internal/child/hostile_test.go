package child

// deeds are what a child of the tests does instead of a verb.
var deeds = map[string]func(out *writer, in *reader) error{}
