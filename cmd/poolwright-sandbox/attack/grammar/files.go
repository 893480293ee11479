package grammar

import (
	"fmt"
	"path"
	"strings"
)

// Folder is where a Sync finds what is derived.
const Folder = "x"

// Sizes are how much of a tree is written at most: beyond a documented limit a folder is
// refused before anything of it is expensive.
type Sizes struct {
	// FileBytes and TotalBytes are of one file, and of all, in bytes.
	FileBytes, TotalBytes int
	// Files is how many there are, and Objects how many they declare.
	Files, Objects int
}

// Documented are the limits of a folder that docs/limits.md has, a little less each.
func Documented() Sizes {
	return Sizes{FileBytes: 4<<20 - 1<<10, TotalBytes: 63 << 20, Files: 19_900, Objects: 9_900}
}

// Files are the contents of the derived files, by their names from the root of the repository.
func Files(d Derivation, most Sizes) map[string]string {
	w := &fileWriter{sizes: most, files: map[string]string{}}
	switch d.Rule {
	case "plain":
		for _, part := range d.Of {
			w.file(Folder, part)
		}
		w.add(path.Join(Folder, "cluster.yaml"), cluster)
	case "kustomized":
		w.layer(Folder, d.Of[0], "cluster.yaml")
		w.add(path.Join(Folder, "cluster.yaml"), cluster)
	}
	return w.files
}

// Base are the files of the repository that a pull request is of.
func Base() map[string]string { return map[string]string{path.Join(Folder, "cluster.yaml"): cluster} }

// fileWriter writes files until its sizes are reached.
type fileWriter struct {
	sizes          Sizes
	files          map[string]string
	bytes, objects int
	// names is how many names were given.
	names int
	// made is how many bytes of objects were made, whether or not they fit.
	made int
}

// full reports that no more objects are to be made.
func (w *fileWriter) full() bool { return w.made > w.sizes.TotalBytes || w.objects >= w.sizes.Objects }

// next is a name that no other has.
func (w *fileWriter) next(of string) string {
	w.names++
	return fmt.Sprintf("%s%d", of, w.names)
}

// add adds a file; false where that would be too much.
func (w *fileWriter) add(name, content string) bool {
	if len(w.files) >= w.sizes.Files || w.bytes+len(content) > w.sizes.TotalBytes || len(content) > w.sizes.FileBytes {
		return false
	}
	w.files[name] = content
	w.bytes += len(content)
	return true
}

// file writes the files of a derivation into a folder and returns their names.
func (w *fileWriter) file(folder string, d Derivation) []string {
	switch d.Rule {
	case "list":
		return w.listed(folder, d)
	case "flood":
		return w.flood(folder, d)
	}
	return w.documents(folder, d)
}

// documents writes so many copies (N[0]) of each object, into as many files as that takes.
func (w *fileWriter) documents(folder string, d Derivation) []string {
	var out []string
	var content strings.Builder
	flush := func() bool {
		name := w.next("f") + ".yaml"
		added := content.Len() == 0 || w.add(path.Join(folder, name), content.String())
		if added && content.Len() > 0 {
			out = append(out, name)
		}
		content.Reset()
		return added
	}
	for i := 0; i < d.N[0] && !w.full(); i++ {
		for _, part := range d.Of {
			document := "---\n" + w.object(part) + "\n"
			w.objects++
			if content.Len()+len(document) > w.sizes.FileBytes && !flush() {
				return out
			}
			content.WriteString(document)
		}
	}
	flush()
	return out
}

// listed writes one List of so many copies (N[0]) of each object.
func (w *fileWriter) listed(folder string, d Derivation) []string {
	items := w.repeat(d.N[0], func(int) string {
		var all []string
		for _, part := range d.Of {
			w.objects++
			all = append(all, w.object(part))
		}
		return strings.Join(all, ",\n")
	})
	name := w.next("f") + ".yaml"
	if !w.add(path.Join(folder, name), "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n"+items+"]}\n") {
		return nil
	}
	return []string{name}
}

// flood writes so many files (N[0]) of one object each.
func (w *fileWriter) flood(folder string, d Derivation) []string {
	var out []string
	for i := 0; i < d.N[0] && !w.full(); i++ {
		w.objects++
		name := w.next("f") + ".yaml"
		if !w.add(path.Join(folder, name), w.object(d.Of[0])+"\n") {
			break
		}
		out = append(out, name)
	}
	return out
}

// repeat joins so many texts with commas, or as many as fit into half of a file.
func (w *fileWriter) repeat(n int, of func(i int) string) string {
	var out strings.Builder
	for i := range n {
		one := of(i)
		if out.Len()+len(one) > w.sizes.FileBytes/2 || w.full() {
			break
		}
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString(one)
	}
	return out.String()
}
