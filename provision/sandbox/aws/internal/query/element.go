package query

import (
	"bytes"
	"encoding/xml"
	"strconv"
)

// Element is one XML element of a response. The zero Element is nothing: it is left
// out when written, which is how optional fields stay absent.
type Element struct {
	name string
	text string
	kids []Element
}

// Text is an element that holds a value, also an empty one.
func Text(name, value string) Element { return Element{name: name, text: value} }

// Opt is Text, or nothing where the value is empty.
func Opt(name, value string) Element {
	if value == "" {
		return Element{}
	}
	return Text(name, value)
}

// Int is an element that holds a whole number.
func Int(name string, value int) Element { return Text(name, strconv.Itoa(value)) }

// Bool is an element that holds true or false.
func Bool(name string, value bool) Element { return Text(name, strconv.FormatBool(value)) }

// Group is an element that holds others.
func Group(name string, kids ...Element) Element { return Element{name: name, kids: kids} }

// List is an element that holds a sequence: every row is renamed to item
// ("item" in EC2, "member" in IAM).
func List(name, item string, rows []Element) Element {
	kids := make([]Element, 0, len(rows))
	for _, r := range rows {
		r.name = item
		kids = append(kids, r)
	}
	return Element{name: name, kids: kids}
}

// Values is a List of plain values.
func Values(name, item string, values []string) Element {
	rows := make([]Element, 0, len(values))
	for _, v := range values {
		rows = append(rows, Text(item, v))
	}
	return Element{name: name, kids: rows}
}

// Document writes the node as a whole XML document; xmlns may be empty.
func Document(n Element, xmlns string) []byte {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	n.write(&b, xmlns)
	return b.Bytes()
}

func (n Element) write(b *bytes.Buffer, xmlns string) {
	if n.name == "" {
		return
	}
	b.WriteByte('<')
	b.WriteString(n.name)
	if xmlns != "" {
		b.WriteString(` xmlns="`)
		escape(b, xmlns)
		b.WriteByte('"')
	}
	b.WriteByte('>')
	escape(b, n.text)
	for _, k := range n.kids {
		k.write(b, "")
	}
	b.WriteString("</")
	b.WriteString(n.name)
	b.WriteByte('>')
}

// escape cannot fail: a bytes.Buffer takes everything.
func escape(b *bytes.Buffer, s string) { _ = xml.EscapeText(b, []byte(s)) }
