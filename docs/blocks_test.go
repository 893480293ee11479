package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// blockRow is a row of testdata/blocks.txt, which the end-to-end tests read, too.
type blockRow struct {
	page, begins, how string
	used              bool
}

func blockRows(t *testing.T) (all []*blockRow) {
	t.Helper()
	for line := range strings.Lines(read(t, "testdata/blocks.txt")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSpace(line), " | ")
		if len(fields) != 3 {
			t.Fatalf("not three fields: %s", line)
		}
		all = append(all, &blockRow{page: fields[0], begins: fields[1], how: fields[2]})
	}
	return all
}

// rowOf is the first row of the page that the block begins as, if there is one; * is any block.
func rowOf(rows []*blockRow, page, block string) *blockRow {
	for _, row := range rows {
		if row.page == page && (row.begins == "*" || strings.HasPrefix(block, row.begins)) {
			return row
		}
	}
	return nil
}

var topTest = regexp.MustCompile(`^Test\w+$`)

func TestEachBlockOfCommandsIsRunOrListedWithTheReason(t *testing.T) {
	rows := blockRows(t)
	tests := testsIn(t, filepath.Join("cmd", "internal", "e2e"))
	names := []string{"../README.md"}
	for _, folder := range []string{"tutorials", "howto"} {
		pages, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			names = append(names, folder+"/"+page.Name())
		}
	}
	run, listed := 0, 0
	for _, name := range names {
		for _, block := range commandBlocks(read(t, name)) {
			row := rowOf(rows, name, block)
			if row == nil {
				t.Errorf("docs/testdata/blocks.txt has no row for this block of %s:\n%s", name, block)
				continue
			}
			row.used = true
			if topTest.MatchString(row.how) {
				run++
			} else {
				listed++
			}
		}
	}
	for _, row := range rows {
		if !row.used {
			t.Errorf("%s has no block that begins with %q", row.page, row.begins)
		}
		for field := range strings.FieldsSeq(row.how) {
			if strings.HasPrefix(field, "Test") && !tests[strings.TrimRight(field, ",")] {
				t.Errorf("there is no %s, which is to run %q of %s", field, row.begins, row.page)
			}
		}
	}
	t.Logf("%d blocks are run, %d are listed with the reason", run, listed)
}

var commandBlock = regexp.MustCompile("(?ms)^ *```sh\n *(.*?)^ *```$")

// commandBlocks are the blocks of commands of a page, those within lists, too.
func commandBlocks(page string) (blocks []string) {
	for _, m := range commandBlock.FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

func TestABlockIsThatOfTheFirstRowThatItBeginsAs(t *testing.T) {
	rows := []*blockRow{{page: "a.md", begins: "make"}, {page: "a.md", begins: "*"}, {page: "b.md", begins: "make"}}
	for i, block := range commandBlocks("```sh\nmake x\n```\n\n1. x\n\n   ```sh\n   ls\n   ```\n\n```yaml\nmake: x\n```\n") {
		if row := rowOf(rows, "a.md", block); row != rows[i] {
			t.Errorf("%q is that of %+v", block, row)
		}
	}
	if rowOf(rows, "b.md", "ls") != nil || rowOf(rows, "c.md", "make") != nil {
		t.Error("a block of another page or beginning has a row")
	}
}
