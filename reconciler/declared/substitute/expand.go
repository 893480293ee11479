package substitute

import (
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

// Bounds on one expression and on all of one Apply. A repository is not
// trusted, and the language has loops: ${a//x/${a}} multiplies lengths, and
// patterns are matched in square time.
const (
	maxExpression = 4 << 10   // bytes of one expression as it is written
	maxBraces     = 64        // closing braces in one
	maxValue      = 1 << 20   // bytes that one may come to
	maxEffort     = 256 << 20 // steps of one Apply: about two seconds
	maxErrors     = 10        // reported of one object
)

// filled is what an expression comes to.
type filled struct {
	text string
	// invalid is what is wrong with it; empty where nothing is.
	invalid string
	// names are the variables that it mentions, secrets those of Secrets.
	names, secrets []string
}

// result is a text with its expressions filled in.
type result struct {
	text   string
	errs   []expressionError
	used   []*filled
	secret bool
}

// names lists the variables of the text for a message.
func (r result) names() string {
	var all []string
	for _, f := range r.used {
		for _, n := range f.names {
			all = append(all, "${"+n+"}")
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 {
		return "defaults"
	}
	const most = 5
	if len(all) > most {
		return strings.Join(all[:most], ", ") + " and others"
	}
	return strings.Join(all, ", ")
}

type expressionError struct {
	offset  int
	message string
}

// expand fills the values into the text of one object.
func (a *applier) expand(text string) (result, error) {
	x := substitution{source: text}
	limits := a.tree.Limits()
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '$')
		if i < 0 {
			x.out.WriteString(text[at:])
			break
		}
		x.out.WriteString(text[at : at+i])
		at += i
		switch {
		case strings.HasPrefix(text[at:], "$$"):
			x.out.WriteByte('$')
			at += 2
		case strings.HasPrefix(text[at:], "${"):
			f, length, err := a.expression(text[at:])
			if err != nil {
				return result{}, err
			}
			if !x.add(at, length, f) {
				return x.result, nil
			}
			at += length
		default:
			x.out.WriteByte('$')
			at++
		}
		if int64(x.out.Len()) > limits.FileBytes {
			return result{}, manifest.LimitError("it grows to more than %d KiB", limits.FileBytes>>10)
		}
	}
	x.text = x.out.String()
	if a.bytes += int64(len(x.text)); a.bytes > limits.TotalBytes {
		return result{}, manifest.LimitError("all objects grow to more than %d MiB together", limits.TotalBytes>>20)
	}
	return x.result, nil
}

// substitution is a text while its expressions are filled in.
type substitution struct {
	result
	source string
	out    strings.Builder
	fields *fieldLocator // of source; made for the first expression that needs them
}

// add takes in the expression at an offset, and reports whether the rest of the
// text is worth reading: not behind one without an end, nor behind many errors.
func (x *substitution) add(at, length int, f *filled) bool {
	message := f.invalid
	if message == "" && x.crosses(at, length) {
		message, length = unreadable(x.source[at:]), 0
	}
	if message != "" {
		x.errs = append(x.errs, expressionError{offset: at, message: message})
		if length == 0 || len(x.errs) >= maxErrors {
			return false
		}
	}
	x.out.WriteString(f.text)
	x.used = append(x.used, f)
	x.secret = x.secret || len(f.secrets) > 0
	return true
}

// crosses reports whether an expression ends in another field than it starts in.
// One without white space cannot.
func (x *substitution) crosses(at, length int) bool {
	if !strings.ContainsAny(x.source[at:at+length], " \n") {
		return false
	}
	if x.fields == nil {
		x.fields = newFieldLocator(x.source)
	}
	return x.fields.at(at) != x.fields.at(at+length-1)
}

// expression reads the expression that text starts with. It is the shortest
// start that the language takes: the language reads from left to right and ends
// at a brace, so that no longer one can have been meant. A length of 0 means
// that none was found.
func (a *applier) expression(text string) (*filled, int, error) {
	within := text[:min(len(text), maxExpression)]
	end := 0
	for range maxBraces {
		i := strings.IndexByte(within[end:], '}')
		if i < 0 {
			break
		}
		end += i + 1
		one := within[:end]
		if f, ok := a.known[one]; ok {
			return f, end, nil
		}
		if err := a.spend(len(one) * (1 + strings.Count(one, "$") + strings.Count(one, `\`))); err != nil {
			return nil, 0, err
		}
		e, err := a.values.read(one)
		if err != nil {
			continue
		}
		f, err := a.fill(one, e)
		if err != nil {
			return nil, 0, err
		}
		a.known[one] = f
		return f, end, nil
	}
	return &filled{invalid: unreadable(text)}, 0, nil
}

// fill evaluates an expression.
func (a *applier) fill(one string, e Expression) (*filled, error) {
	f := &filled{names: e.Variables()}
	f.secrets = a.values.secrets(f.names)
	size, steps := e.Cost(a.values.publicLength)
	if size > maxValue {
		f.invalid = head(one) + " comes to more than 1 MiB of text; use a shorter value"
		return f, nil
	}
	if err := a.spend(size + steps); err != nil {
		return nil, err
	}
	missing := ""
	text, err := e.Evaluate(func(name string) (string, bool) {
		one, defined := a.values.get(name)
		if !defined && a.options.Strict {
			missing = name
			return "", false
		}
		if one.secret() {
			return "", true // As in a process that does not have it.
		}
		return one.value(), true
	})
	switch {
	case err != nil && missing != "":
		f.invalid = a.undefined(missing)
	case err != nil:
		f.invalid = unreadable(one)
	case len(f.secrets) > 0:
		f.text = a.values.seal(one, f.names)
	case strings.ContainsAny(text, "\r\u0085\u2028\u2029"):
		f.invalid = head(one) + " comes to text with a line break in it that YAML would read, such as a carriage return; write " + a.originsOf(f.names) + " without"
	default:
		f.text = text
	}
	return f, nil
}

// spend takes from the effort that one Apply may cost.
func (a *applier) spend(steps int) error {
	if a.effort -= steps; a.effort < 0 {
		return manifest.LimitError("its expressions take too long to evaluate; use fewer patterns, and shorter values with them")
	}
	return nil
}

// undefined reports that a variable has no value, and how to give it one.
func (a *applier) undefined(name string) string {
	return "${" + name + "} has no value: set " + name + " in spec.substitute of the Sync or in a ConfigMap that spec.substituteFrom names, or write ${" +
		name + ":=value} with a default, or $${" + name + "} where the text is meant as it is" + manifest.Suggestion(name, a.values.Names())
}

// originsOf names where values come from.
func (a *applier) originsOf(names []string) string {
	var out []string
	for _, n := range names {
		if v, ok := a.values.get(n); ok {
			out = append(out, n+" in "+v.from)
		}
	}
	if len(out) == 0 {
		return "it"
	}
	return strings.Join(out, ", ")
}

func unreadable(text string) string {
	return head(text) + " starts an expression that cannot be filled in: known are forms such as ${NAME}, ${NAME:=default}, ${NAME:0:8} and ${NAME/from/to}, " +
		"closed in the field where they start; write $${ where ${ is meant as it is, or put the annotation " + SubstituteKey + ": " + off + " on the object"
}

// head is as much of an expression as a message may repeat: the name and no
// default, which may stand in a Secret or in user data.
func head(text string) string {
	const most = 64
	text = strings.TrimPrefix(text, "${")
	name := nameOf(text[:min(len(text), most)])
	if strings.HasPrefix(text[len(name):], "}") {
		return "${" + name + "}"
	}
	return "${" + name + "…}"
}
