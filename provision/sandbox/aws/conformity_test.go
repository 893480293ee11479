package aws_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// TestEveryParameterIsOneOfTheModel finds a parameter of a form or behind a path
// that the emulator understands and no client of the SDK ever sends.
func TestEveryParameterIsOneOfTheModel(t *testing.T) {
	cloud, err := sandboxaws.New(sandboxaws.DefaultConfig())
	ok(t, err)
	emulated, _ := cloud.Model()
	for _, name := range slices.Sorted(maps.Keys(emulated)) {
		for _, op := range slices.Sorted(maps.Keys(emulated[name])) {
			if len(emulated[name][op]) == 0 {
				continue
			}
			sent := parametersOf(t, name, op)
			for _, p := range emulated[name][op] {
				if !sent[p] {
					t.Errorf("%s %s understands %s, which the SDK never sends", name, op, p)
				}
			}
		}
	}
}

var position = regexp.MustCompile(`\.\d+\b`)

// parametersOf are all parameters that the SDK sends for an operation, with # for
// a position in a list.
func parametersOf(t *testing.T, service, op string) map[string]bool {
	t.Helper()
	observed := map[string]bool{}
	clients := sdkClients("http://127.0.0.1", respondWith(func(r *http.Request) []byte {
		note := func(values url.Values) {
			for name := range values {
				observed[position.ReplaceAllString(name, ".#")] = true
			}
		}
		note(r.URL.Query())
		if r.Body != nil && isForm(service) {
			body, _ := io.ReadAll(r.Body) // it is in memory
			form, err := url.ParseQuery(string(body))
			if err != nil {
				t.Error(err)
			}
			note(form)
		}
		return nil // no answer
	}), unchecked)
	m := method(t, clients[service], op)
	populate(m.input.Elem(), 7)
	_ = m.run(t.Context())
	return observed
}

// populate gives each member of a struct a value, down to a depth.
func populate(v reflect.Value, depth int) {
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		populate(v.Elem(), depth)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		populate(v.Index(0), depth)
	case v.Kind() == reflect.Struct && v.NumField() > 1 && v.Type().PkgPath() != "time":
		for _, f := range v.Fields() {
			if f.CanSet() && depth > 0 {
				populate(f, depth-1)
			}
		}
	case v.Kind() == reflect.Bool:
		v.SetBool(true) // false is not sent where the model has a default
	case v.Kind() == reflect.Interface:
	default:
		set(v)
	}
}

// respondWith is an HTTP client whose every answer is what it returns.
type respondWith func(*http.Request) []byte

func (a respondWith) Do(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(a(r))), Request: r}, nil
}

// decoder lets the SDK's clients decode any answer.
type decoder struct {
	mu       sync.Mutex
	response []byte
	clients  map[string]any
	inputs   map[string]reflect.Value
	checked  map[string]bool // places in answers, by operation, that were compared with the model
}

var decoding = sync.OnceValue(func() *decoder {
	d := &decoder{inputs: map[string]reflect.Value{}, checked: map[string]bool{}}
	d.clients = sdkClients("http://127.0.0.1", respondWith(func(*http.Request) []byte { return d.response }))
	return d
})

// decode is what the SDK makes of an answer, or its error as text.
func (d *decoder) decode(t *testing.T, service, op string, response []byte) any {
	t.Helper()
	m := method(t, d.clients[service], op)
	input, known := d.inputs[service+op]
	if !known {
		m.satisfy("")
		input, d.inputs[service+op] = m.input, m.input
	}
	m.input, d.response = input, response
	out, err := m.output(t.Context())
	if err != nil {
		return err.Error()
	}
	out.Elem().FieldByName("ResultMetadata").SetZero() // it has the times
	return out.Interface()
}

// conform reports what an answer holds and the SDK's model of the operation does
// not have: what the SDK decodes the same without.
func (d *decoder) conform(t *testing.T, service, op string, response []byte) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	tree, err := parts(service, response)
	if err != nil {
		t.Errorf("%s %s: the answer cannot be read: %v", service, op, err)
		return
	}
	var whole any
	tree.each("", func(path string, without func() []byte) {
		if id := service + " " + op + path; d.checked[id] {
			return
		} else {
			d.checked[id] = true
		}
		if whole == nil {
			whole = d.decode(t, service, op, response)
		}
		if reflect.DeepEqual(whole, d.decode(t, service, op, without())) {
			t.Errorf("%s %s answers with %s, which the SDK's model does not have", service, op, path)
		}
	}, tree)
}

// part is an element of an answer: of XML, or of JSON, where an element of a list
// has no name.
type part struct {
	name, text string // text is JSON's value as it is there, or XML's characters
	kids       []*part
	list, json bool
}

// parts reads an answer.
func parts(service string, response []byte) (*part, error) {
	if isForm(service) {
		root := &part{}
		err := xml.Unmarshal(response, root)
		return root, err
	}
	return jsonPart("", json.RawMessage(response))
}

// UnmarshalXML reads an element with all that is in it.
func (p *part) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	p.name = start.Name.Local
	for {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch e := token.(type) {
		case xml.StartElement:
			kid := &part{}
			if err := kid.UnmarshalXML(d, e); err != nil {
				return err
			}
			p.kids = append(p.kids, kid)
		case xml.CharData:
			p.text += string(e)
		case xml.EndElement:
			return nil
		}
	}
}

func jsonPart(name string, raw json.RawMessage) (*part, error) {
	p := &part{name: name, json: true}
	var object map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case json.Unmarshal(raw, &object) == nil && object != nil:
	case json.Unmarshal(raw, &list) == nil && list != nil:
		p.list = true
	default:
		p.text = string(raw)
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		kid, err := jsonPart(key, object[key])
		if err != nil {
			return nil, err
		}
		p.kids = append(p.kids, kid)
	}
	for _, value := range list {
		kid, err := jsonPart("", value)
		if err != nil {
			return nil, err
		}
		p.kids = append(p.kids, kid)
	}
	return p, nil
}

// each visits every named element below; without writes the whole answer without
// it, or with another value where the SDK decodes the value as if it were not there.
func (p *part) each(path string, visit func(path string, without func() []byte), root *part) {
	for n, kid := range p.kids {
		at := path + "/" + kid.name
		if unmodelled(kid.name) {
			continue
		}
		if kid.name != "" {
			visit(at, func() []byte {
				all, text := p.kids, kid.text
				defer func() { p.kids, kid.text = all, text }()
				if other := map[string]string{"false": "true", "0": "1"}[text]; other != "" {
					kid.text = other
				} else {
					p.kids = slices.Delete(slices.Clone(all), n, n+1)
				}
				return root.write()
			})
		}
		kid.each(at, visit, root)
	}
}

// unmodelled are the elements that AWS sends beside what the model has.
func unmodelled(name string) bool {
	return slices.Contains([]string{"requestId", "ResponseMetadata", "return"}, name)
}

func (p *part) write() []byte {
	var b bytes.Buffer
	p.writeTo(&b)
	return b.Bytes()
}

func (p *part) writeTo(b *bytes.Buffer) {
	open, shut := "<"+p.name+">", "</"+p.name+">"
	switch {
	case p.json && p.list:
		open, shut = "[", "]"
	case p.json && p.text != "":
		open, shut = p.text, ""
	case p.json:
		open, shut = "{", "}"
	}
	b.WriteString(open)
	if !p.json {
		_ = xml.EscapeText(b, []byte(p.text)) // a buffer takes everything
	}
	for n, kid := range p.kids {
		if p.json && n > 0 {
			b.WriteByte(',')
		}
		if p.json && !p.list {
			fmt.Fprintf(b, "%q:", kid.name)
		}
		kid.writeTo(b)
	}
	b.WriteString(shut)
}

func TestTheCheckOfResponsesFindsAnUnknownField(t *testing.T) {
	for name, tt := range map[string]struct{ service, op, response string }{
		"an element of XML": {"ec2", "DescribeSubnets", `<R><requestId>1</requestId><subnetSet><item><subnetId>a</subnetId><mood>good</mood></item></subnetSet></R>`},
		"a list of XML":     {"iam", "GetRole", `<R><GetRoleResult><Role><RoleName>a</RoleName><Moods><member>a</member></Moods></Role></GetRoleResult></R>`},
		"a member of JSON":  {"sqs", "GetQueueUrl", `{"QueueUrl":"x","Mood":"good"}`},
		"a part of JSON":    {"eks", "DescribeCluster", `{"cluster":{"name":"x","logging":{"clusterLogging":[{"enabled":true,"mood":1}]}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var found []string
			d := decoding()
			tree, err := parts(tt.service, []byte(tt.response))
			ok(t, err)
			d.mu.Lock()
			defer d.mu.Unlock()
			whole := d.decode(t, tt.service, tt.op, []byte(tt.response))
			tree.each("", func(path string, without func() []byte) {
				if reflect.DeepEqual(whole, d.decode(t, tt.service, tt.op, without())) {
					found = append(found, path)
				}
			}, tree)
			if !strings.Contains(strings.ToLower(strings.Join(found, " ")), "mood") || slices.ContainsFunc(found, func(p string) bool { return !strings.Contains(strings.ToLower(p), "mood") }) {
				t.Errorf("found %q", found)
			}
		})
	}
}
