package userdata

import (
	"errors"
	"strings"
)

// argument is one argument of a shell command. dynamic is true when the shell would
// have replaced a part of it, so that its text is not what the command gets.
type argument struct {
	text    string
	dynamic bool
}

// command is a simple command.
type command struct {
	args []argument
	// conditional is true behind &&, || and a pipe.
	conditional bool
}

// commands splits a shell script into simple commands, as far as finding one
// call and its arguments needs: quotes, escapes, comments, line continuations,
// separators and here-documents. Expansions are marked, never evaluated.
func commands(script string) ([]command, error) {
	s := scanner{text: strings.ReplaceAll(script, "\r\n", "\n")}
	for s.pos < len(s.text) {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	s.endCommand()
	return s.commands, nil
}

type scanner struct {
	text     string
	pos      int
	commands []command
	current  []argument
	// operator is true while the last separator was & or |.
	operator   bool
	argument   strings.Builder
	inArgument bool
	dynamic    bool
	heredocs   []string // delimiters whose bodies begin after this line
}

// step takes one token's worth of text at an unquoted position.
func (s *scanner) step() error {
	c := s.text[s.pos]
	switch {
	case c == '\\':
		s.escaped()
	case c == '\'':
		return s.singleQuoted()
	case c == '"':
		return s.doubleQuoted()
	case c == '#' && !s.inArgument:
		s.skipLine()
	case c == ' ' || c == '\t':
		s.endArgument()
		s.pos++
	case c == '\n':
		s.endCommand()
		s.pos++
		return s.skipHeredocs()
	case strings.IndexByte(";&|()", c) >= 0:
		s.endCommand()
		s.operator = c == '&' || c == '|'
		s.pos++
	case strings.HasPrefix(s.text[s.pos:], "<<"):
		s.heredoc()
	default:
		s.dynamic = s.dynamic || c == '$' || c == '`'
		s.add(c)
		s.pos++
	}
	return nil
}

// escaped takes a backslash and what it makes literal; before the end of a line it
// takes both away.
func (s *scanner) escaped() {
	if next := s.pos + 1; next < len(s.text) && s.text[next] != '\n' {
		s.add(s.text[next])
	}
	s.pos = min(s.pos+2, len(s.text))
}

func (s *scanner) singleQuoted() error {
	end := strings.IndexByte(s.text[s.pos+1:], '\'')
	if end < 0 {
		return errors.New("its shell script has an unclosed single quote")
	}
	s.inArgument = true
	s.argument.WriteString(s.text[s.pos+1 : s.pos+1+end])
	s.pos += end + 2
	return nil
}

func (s *scanner) doubleQuoted() error {
	s.inArgument = true
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; c {
		case '"':
			s.pos++
			return nil
		case '\\':
			if s.pos+1 < len(s.text) && strings.IndexByte("\\\"$`\n", s.text[s.pos+1]) >= 0 {
				s.pos++
				if s.text[s.pos] == '\n' {
					continue
				}
			}
			s.argument.WriteByte(s.text[s.pos])
		case '$', '`':
			s.dynamic = true
			s.argument.WriteByte(c)
		default:
			s.argument.WriteByte(c)
		}
	}
	return errors.New("its shell script has an unclosed double quote")
}

// heredoc notes the delimiter of a here-document; its body starts on the next
// line. A shift in arithmetic and a here-string are similar and are no such thing.
func (s *scanner) heredoc() {
	s.endArgument()
	rest := strings.TrimLeft(strings.TrimPrefix(s.text[s.pos+2:], "-"), " \t")
	if rest == "" || strings.IndexByte("<0123456789$(\n", rest[0]) >= 0 {
		s.pos = len(s.text) - len(strings.TrimLeft(s.text[s.pos:], "<"))
		return
	}
	end := strings.IndexAny(rest, " \t\n;&|")
	if end < 0 {
		end = len(rest)
	}
	s.heredocs = append(s.heredocs, strings.Trim(rest[:end], `'"\`))
	s.pos = len(s.text) - len(rest) + end
}

func (s *scanner) skipHeredocs() error {
	for _, delimiter := range s.heredocs {
		for {
			if s.pos >= len(s.text) {
				return errors.New("its shell script has an unclosed here-document")
			}
			line, _, _ := strings.Cut(s.text[s.pos:], "\n")
			s.pos = min(s.pos+len(line)+1, len(s.text))
			if strings.TrimLeft(line, "\t") == delimiter {
				break
			}
		}
	}
	s.heredocs = nil
	return nil
}

func (s *scanner) skipLine() {
	for s.pos < len(s.text) && s.text[s.pos] != '\n' {
		s.pos++
	}
}

func (s *scanner) add(c byte) {
	s.inArgument = true
	s.argument.WriteByte(c)
}

func (s *scanner) endArgument() {
	if s.inArgument {
		s.current = append(s.current, argument{text: s.argument.String(), dynamic: s.dynamic})
	}
	s.argument.Reset()
	s.inArgument, s.dynamic = false, false
}

func (s *scanner) endCommand() {
	s.endArgument()
	if len(s.current) > 0 {
		s.commands = append(s.commands, command{args: s.current, conditional: s.operator})
		s.operator = false
	}
	s.current = nil
}

// fields splits one line of arguments, such as kubelet's, into unquoted arguments.
func fields(line string) ([]string, error) {
	found, err := commands(line)
	if err != nil {
		return nil, errors.New("its kubelet arguments have an unclosed quote")
	}
	if len(found) > 1 {
		return nil, errors.New("its kubelet arguments hold a shell separator")
	}
	var out []string
	for _, c := range found {
		for _, w := range c.args {
			if w.dynamic {
				return nil, errors.New("its kubelet arguments use a shell expansion, which the sandbox does not evaluate")
			}
			out = append(out, w.text)
		}
	}
	return out, nil
}
