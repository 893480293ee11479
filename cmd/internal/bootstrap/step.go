package bootstrap

import (
	"fmt"
	"time"
)

// step reports a part of the work when it begins, and when it has ended, with its duration.
func (r Request) step(name string, do func() error) error {
	r.Progress("► " + name)
	begin := time.Now()
	err := do()
	mark := "✔"
	if err != nil {
		mark = "✗"
	}
	r.Progress(fmt.Sprintf("%s %s (%s)", mark, name, time.Since(begin).Round(100*time.Millisecond)))
	return err
}
