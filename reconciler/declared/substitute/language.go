package substitute

// Language reads one expression: text from "${" to its closing brace, and
// nothing behind it. Its error is only that the text is none, and repeats nothing of
// it. The language of this product is fluxexpr.Parse.
type Language func(text string) (Expression, error)

// Expression is one that was read.
type Expression interface {
	// Variables are the names that it mentions, each once, sorted.
	Variables() []string
	// Cost bounds, for values of the given lengths in bytes, how many bytes the
	// expression may come to, and how many steps that may take.
	Cost(length func(name string) int) (size, steps int)
	// Evaluate returns what the expression comes to. It reads values by lookup; false
	// means that there is none, which is an error unless the expression has something to
	// put in its place.
	Evaluate(lookup func(name string) (string, bool)) (string, error)
}
