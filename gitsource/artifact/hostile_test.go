package artifact

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"

	"github.com/poolwright/poolwright/gitsource"
)

func TestHostileArchivesAreRefusedWhole(t *testing.T) {
	typed := func(name string, kind byte, to string) entry {
		return entry{Header: tar.Header{Name: name, Typeflag: kind, Linkname: to, Mode: 0o644}}
	}
	many := make([]entry, 101)
	for i := range many {
		many[i] = file(fmt.Sprintf("f%d", i), "")
	}
	var deep, folders, long []entry
	for i := range 2 {
		deep = append(deep, file(fmt.Sprintf("%d/", i)+strings.Repeat("a/", maxDepth-2)+"b", ""))
	}
	for i := range 101 {
		folders = append(folders, folder(fmt.Sprintf("f%d", i)))
	}
	for i := range 17 {
		long = append(long, file(fmt.Sprintf("%04000d", i), ""))
	}
	for name, tt := range map[string]struct {
		entries []entry
		want    error
	}{
		"a symbolic link out of the tree":      {[]entry{typed("a", tar.TypeSymlink, "../../etc/passwd")}, gitsource.ErrUnsafe},
		"a symbolic link inside it":            {[]entry{file("b", "1"), typed("a", tar.TypeSymlink, "b")}, gitsource.ErrUnsafe},
		"a hard link":                          {[]entry{file("b", "1"), typed("a", tar.TypeLink, "b")}, gitsource.ErrUnsafe},
		"a device":                             {[]entry{typed("a", tar.TypeChar, "")}, gitsource.ErrUnsafe},
		"a named pipe":                         {[]entry{typed("a", tar.TypeFifo, "")}, gitsource.ErrUnsafe},
		"a name that leads out":                {[]entry{file("../a", "1")}, gitsource.ErrUnsafe},
		"a name that leads out and back":       {[]entry{file("a/../../b", "1")}, gitsource.ErrUnsafe},
		"an absolute name":                     {[]entry{file("/a", "1")}, gitsource.ErrUnsafe},
		"a name with a backslash":              {[]entry{file(`a\b`, "1")}, gitsource.ErrUnsafe},
		"a name with a line break":             {[]entry{file("a\nb", "1")}, gitsource.ErrUnsafe},
		"an empty part of a name":              {[]entry{file("a//b", "1")}, gitsource.ErrUnsafe},
		"a file without a name":                {[]entry{file(".", "1")}, gitsource.ErrUnsafe},
		"two files of one name":                {[]entry{file("a", "1"), file("a", "2")}, gitsource.ErrUnsafe},
		"two files of one name, written twice": {[]entry{file("a", "1"), file("./a", "1")}, gitsource.ErrUnsafe},
		"a file and a folder of one name":      {[]entry{file("a", "1"), folder("a")}, gitsource.ErrUnsafe},
		"a folder and a file of one name":      {[]entry{file("a/b", "1"), file("a", "1")}, gitsource.ErrUnsafe},
		"a file below a file":                  {[]entry{file("a", "1"), file("a/b", "1")}, gitsource.ErrUnsafe},
		"more files than the limit":            {many, gitsource.ErrLimit},
		"more folders than the limit":          {folders, gitsource.ErrLimit},
		"more folders that only names have":    {deep, gitsource.ErrLimit},
		"names that are long together":         {long, gitsource.ErrLimit},
		"folders beyond the limit":             {[]entry{file(strings.Repeat("a/", maxDepth)+"b", "1")}, gitsource.ErrLimit},
		"more than it may unpack to":           {[]entry{file("a", strings.Repeat("0", 1<<20)), file("b", strings.Repeat("0", 1<<20))}, gitsource.ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newServer(t), t.TempDir()
			s.publish("good", archive(t, file("good", "1")))
			source := s.source(dir)
			if _, err := source.Fetch(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.publish("bad", archive(t, tt.entries...))
			for range 2 {
				if _, err := source.Fetch(t.Context()); !errors.Is(err, tt.want) {
					t.Errorf("got %v", err)
				}
			}
			if s.count() != 2 {
				t.Errorf("what no further attempt mends was requested %d times", s.count()-1)
			}
			last, ok := source.Last(t.Context())
			if !ok || last.Revision != "good" || contents(t, last.FS)["good"] != "1" {
				t.Errorf("kept is %q, %t", last.Revision, ok)
			}
		})
	}
}

// compressed is something that no tar writer makes.
func compressed(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sparse is the header of a file of a terabyte, of which the archive has one byte.
func sparse(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	const data = "1\n0\n1\n"
	header := &tar.Header{Name: "PaxHeaders.0/a", Typeflag: tar.TypeReg, Mode: 0o644, Size: 513}
	if err := w.WriteHeader(header); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(data + strings.Repeat("\x00", 512-len(data)) + "x")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// The records of a sparse file, which the writer refuses, before that entry.
	var records string
	for _, r := range []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=a", "GNU.sparse.realsize=1099511627776"} {
		n := len(r) + 4
		if len(fmt.Sprint(n)) != 2 {
			n++
		}
		records += fmt.Sprintf("%d %s\n", n, r)
	}
	var pax bytes.Buffer
	w = tar.NewWriter(&pax)
	if err := w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: int64(len(records))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(records)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	header512 := pax.Bytes()
	header512[156] = tar.TypeXHeader
	sum := 0
	for i, b := range header512[:512] {
		if i >= 148 && i < 156 {
			b = ' '
		}
		sum += int(b)
	}
	copy(header512[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return append(header512, out.Bytes()...)
}

func TestBytesThatAreNoArchive(t *testing.T) {
	for name, tt := range map[string]struct {
		content []byte
		want    error
	}{
		"nothing":                          {nil, gitsource.ErrCorrupt},
		"not compressed":                   {[]byte("hello"), gitsource.ErrCorrupt},
		"compressed, and no archive":       {compressed(t, []byte(strings.Repeat("hello", 1000))), gitsource.ErrCorrupt},
		"cut short":                        {archive(t, file("a", strings.Repeat("1", 9999)))[:60], gitsource.ErrCorrupt},
		"a bomb that is no archive":        {compressed(t, make([]byte, 8<<20)), nil},
		"a bomb of sparse files":           {compressed(t, sparse(t)), gitsource.ErrLimit},
		"a bomb of the names of its files": {archive(t, entry{Header: tar.Header{Name: strings.Repeat("a", 5000), Typeflag: tar.TypeReg, Format: tar.FormatPAX}}), gitsource.ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.publish("r", tt.content)
			snapshot, err := s.source(t.TempDir()).Fetch(t.Context())
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v", err)
			}
			if tt.want == nil && len(contents(t, snapshot.FS)) > 0 {
				t.Error("it has files")
			}
		})
	}
}

func TestTheServerCannotLeadAnywhereElse(t *testing.T) {
	good := archive(t, file("a", "1"))
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request reached another server") }))
	defer elsewhere.Close()
	var moved string
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, moved, http.StatusFound)
		case "/within":
			http.Redirect(w, r, "/good", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/good":
			_, _ = w.Write(good)
		case "/large":
			w.Header().Set("Content-Length", "1073741824")
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		case "/forbidden":
			w.WriteHeader(http.StatusForbidden)
		case "/failing":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			http.NotFound(w, r)
		}
	}))
	defer hostile.Close()
	for name, tt := range map[string]struct {
		url, moved string
		want       error
	}{
		"a redirect to another host":             {hostile.URL + "/moved", elsewhere.URL + "/good", gitsource.ErrRedirected},
		"a redirect to the metadata service":     {hostile.URL + "/moved", "http://169.254.169.254/latest/meta-data/", gitsource.ErrRedirected},
		"a redirect to https":                    {hostile.URL + "/moved", strings.Replace(hostile.URL, "http:", "https:", 1) + "/good", gitsource.ErrRedirected},
		"a redirect to a file":                   {hostile.URL + "/moved", "file:///etc/passwd", gitsource.ErrRedirected},
		"a redirect without end":                 {hostile.URL + "/round", "", gitsource.ErrUnreachable},
		"a redirect of the server to itself":     {hostile.URL + "/within", "", nil},
		"the metadata service":                   {"http://169.254.169.254/latest/meta-data/", "", gitsource.ErrInvalid},
		"the metadata service by IPv6":           {"http://[fd00:ec2::254]/latest/meta-data/", "", gitsource.ErrInvalid},
		"the metadata service in another form":   {"http://[::ffff:169.254.169.254]/latest/", "", gitsource.ErrInvalid},
		"a link-local address":                   {"http://[fe80::1]/a", "", gitsource.ErrInvalid},
		"every address":                          {"http://0.0.0.0/a", "", gitsource.ErrInvalid},
		"a file":                                 {"file:///etc/passwd", "", gitsource.ErrInvalid},
		"another scheme":                         {"gopher://host/a", "", gitsource.ErrInvalid},
		"a URL that is signed":                   {"http://localhost:1/a?X-Amz-Signature=hunter2", "", gitsource.ErrUnreachable},
		"a URL that is signed, and redirects":    {hostile.URL + "/round?X-Amz-Signature=hunter2", "", gitsource.ErrUnreachable},
		"a URL with a password":                  {"http://user:hunter2@host/a", "", gitsource.ErrInvalid},
		"no URL":                                 {"\x00", "", gitsource.ErrInvalid},
		"more than the limit by its own account": {hostile.URL + "/large", "", gitsource.ErrLimit},
		"more than the limit":                    {hostile.URL + "/endless", "", gitsource.ErrLimit},
		"an artifact that is gone":               {hostile.URL + "/gone", "", gitsource.ErrArtifact},
		"a server that refuses":                  {hostile.URL + "/forbidden", "", gitsource.ErrArtifact},
		"a server that fails":                    {hostile.URL + "/failing", "", gitsource.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.artifact = fluxmeta.Artifact{URL: tt.url, Revision: "r", Digest: digestOf(good)}
			moved = tt.moved
			_, err := s.source(t.TempDir()).Fetch(t.Context())
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the credential is in the message: %v", err)
			}
		})
	}
}

func TestNothingIsUnpackedBeforeItsDigestIsChecked(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	s.publish("r", archive(t, file("a", "1"), file("a", "2"))) // Which unpacking it would refuse.
	s.set(func(a *fluxmeta.Artifact) { a.Digest = digestOf([]byte("other")) })
	if _, err := s.source(dir).Fetch(t.Context()); !errors.Is(err, gitsource.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAServerThatSendsNothingIsGivenUp(t *testing.T) {
	for name, first := range map[string]string{"not even a header": "", "half of it": "half"} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			hanging := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if first != "" {
					_, _ = w.Write([]byte(first))
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
				close(ended)
			}))
			defer hanging.Close()
			s := newServer(t)
			s.artifact = fluxmeta.Artifact{URL: hanging.URL + "/a", Revision: "r", Digest: digestOf(nil)}
			source := s.source(t.TempDir())
			source.limits.IdleTimeout = 50 * time.Millisecond
			if _, err := source.Fetch(t.Context()); !errors.Is(err, gitsource.ErrUnreachable) || !errors.Is(err, errStalled) {
				t.Errorf("got %v", err)
			}
			<-ended
		})
	}
}

func TestTheEndOfTheCallerEndsAFetch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer hanging.Close()
	s := newServer(t)
	s.artifact = fluxmeta.Artifact{URL: hanging.URL + "/a", Revision: "r", Digest: digestOf(nil)}
	if _, err := s.source(t.TempDir()).Fetch(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAFileBeyondTheLimitIsNotRead(t *testing.T) {
	s := newServer(t)
	s.publish("r", archive(t, file("a", strings.Repeat("1", 1<<20+1))))
	snapshot, err := s.source(t.TempDir()).Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.FS.(*tree).ReadFile("a"); !errors.Is(err, gitsource.ErrLimit) {
		t.Errorf("got %v", err)
	}
}
