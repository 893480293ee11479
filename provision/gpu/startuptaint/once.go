package startuptaint

import "sync"

// once tells an error from the one before, so that each is logged once.
type once struct {
	mu   sync.Mutex
	last string
}

// news is true for an error that differs from the one before.
func (o *once) news(err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.last
	o.last = text
	return text != "" && text != was
}

// maxTold bounds what onceEach remembers.
const maxTold = 1000

// onceEach is once for each of many keys.
type onceEach struct {
	mu   sync.Mutex
	told map[string]string
}

// news is true for a text that differs from the key's last one.
func (o *onceEach) news(key, text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if was, ok := o.told[key]; ok && was == text {
		return false
	}
	if o.told == nil || len(o.told) >= maxTold {
		o.told = map[string]string{}
	}
	o.told[key] = text
	return true
}
