package startuptaint

import "sync"

// once distinguishes an error from the one before, so that each is logged once.
type once struct {
	mu   sync.Mutex
	last string
}

// changed is true for an error that differs from the one before.
func (o *once) changed(err error) bool {
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

// maxKeys bounds what onceEach keeps.
const maxKeys = 1000

// onceEach is once for each of many keys.
type onceEach struct {
	mu   sync.Mutex
	last map[string]string
}

// changed is true for a text that differs from the key's last one.
func (o *onceEach) changed(key, text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if was, ok := o.last[key]; ok && was == text {
		return false
	}
	if o.last == nil || len(o.last) >= maxKeys {
		o.last = map[string]string{}
	}
	o.last[key] = text
	return true
}
