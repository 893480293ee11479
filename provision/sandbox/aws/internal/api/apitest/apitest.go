// Package apitest lets tests of the sandbox's AWS services run operations without HTTP. It refuses
// nothing: what an operation refuses is for the test. Start with Do.
package apitest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Do runs an operation of a service and decodes its response into out, unless that is nil. The code
// is that of the operation's error, "" without one. An error that AWS does not have fails the test.
func Do(t testing.TB, service api.Table, call *api.Call, out any) (code string) {
	t.Helper()
	response, err := service.Operations[call.Op].Run(call)
	if failed, is := errors.AsType[*api.Error](err); is {
		return failed.Code
	}
	if err == nil && out != nil {
		var text []byte
		if text, err = json.Marshal(response); err == nil {
			err = json.Unmarshal(text, out)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}
