package argocd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
	luajson "layeh.com/gopher-json"
)

// Script is Lua as it stands in argocd-cm, where Argo CD opens none of Lua's libraries but these: base, package, table,
// and of os the functions time and date. A script has a second.
type Script struct {
	Text string
	// Parameters are those of an action. Nil is an Argo CD before 3.1, which has none.
	Parameters map[string]string
	// Now is what os.time and os.date return.
	Now time.Time
}

// deadline is how long Argo CD lets a script run.
const deadline = time.Second

// Run runs the script with the global obj, and returns the JSON of the table that it returns.
func (s Script) Run(obj map[string]any) ([]byte, error) {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return nil, fmt.Errorf("opening Lua's library %q: %w", name, err)
		}
	}
	l.PreloadModule(lua.OsLibName, s.os)
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	l.SetContext(ctx)
	if s.Parameters != nil {
		parameters := l.NewTable()
		for name, value := range s.Parameters {
			parameters.RawSetString(name, lua.LString(value))
		}
		l.SetGlobal("actionParams", parameters)
	}
	l.SetGlobal("obj", value(l, obj))
	if err := l.DoString(s.Text); err != nil {
		return nil, err
	}
	table, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("the script returns %s, and must return a table", l.Get(-1).Type())
	}
	return luajson.Encode(table)
}

// os loads what Argo CD has of Lua's library os, by the clock of the test.
func (s Script) os(l *lua.LState) int {
	l.Push(l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"time": func(l *lua.LState) int {
			l.Push(lua.LNumber(s.Now.Unix()))
			return 1
		},
		"date": func(l *lua.LState) int {
			format, utc := strings.CutPrefix(l.CheckString(1), "!")
			if !utc {
				l.RaiseError("os.date(%q) depends on the time zone of Argo CD: begin it with !", format)
			}
			now := s.Now.UTC()
			l.Push(lua.LString(strings.NewReplacer("%Y", now.Format("2006"), "%m", now.Format("01"), "%d", now.Format("02"),
				"%H", now.Format("15"), "%M", now.Format("04"), "%S", now.Format("05")).Replace(format)))
			return 1
		},
	}))
	return 1
}

// value is a value of JSON in Lua.
func value(l *lua.LState, of any) lua.LValue {
	switch v := of.(type) {
	case bool:
		return lua.LBool(v)
	case float64:
		return lua.LNumber(v)
	case int64:
		return lua.LNumber(v)
	case string:
		return lua.LString(v)
	case []any:
		table := l.NewTable()
		for _, one := range v {
			table.Append(value(l, one))
		}
		return table
	case map[string]any:
		table := l.NewTable()
		for name, one := range v {
			table.RawSetString(name, value(l, one))
		}
		return table
	}
	return lua.LNil
}

// Patched is what Argo CD makes of the JSON that an action returned: an empty table, which in Lua is neither an object nor an
// array, is what stood in its place before.
func Patched(returned []byte, before map[string]any) (map[string]any, error) {
	var after map[string]any
	if err := json.Unmarshal(returned, &after); err != nil {
		return nil, fmt.Errorf("an action must return one object: %w", err)
	}
	restored, _ := restore(after, before).(map[string]any)
	return restored, nil
}

// restore gives empty arrays of after that were objects before their form back.
func restore(after, before any) any {
	switch was := before.(type) {
	case map[string]any:
		if empty, ok := after.([]any); ok && len(empty) == 0 {
			return map[string]any{}
		}
		is, ok := after.(map[string]any)
		if !ok {
			return after
		}
		for name, one := range is {
			if old, ok := was[name]; ok {
				is[name] = restore(one, old)
			}
		}
	case []any:
		is, ok := after.([]any)
		if !ok {
			return after
		}
		for i := range min(len(is), len(was)) {
			is[i] = restore(is[i], was[i])
		}
	}
	return after
}
