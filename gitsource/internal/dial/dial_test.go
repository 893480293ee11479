package dial

import (
	"errors"
	"testing"
)

func TestMetadataServicesAreRefusedInEveryForm(t *testing.T) {
	for address, want := range map[string]error{
		"169.254.169.254:80": ErrForbidden, "[::ffff:169.254.169.254]:80": ErrForbidden, "[fd00:ec2::254]:80": ErrForbidden,
		"[64:ff9b::a9fe:a9fe]:80": ErrForbidden, "[2002:a9fe:a9fe::1]:80": ErrForbidden, "0.0.0.0:80": ErrForbidden,
		"[64:ff9b::808:808]:80": nil, "[2002:808:808::1]:80": nil, "127.0.0.1:80": nil, "10.0.0.1:80": nil, "[2001:db8::1]:80": nil,
	} {
		if got, err := Check(address); !errors.Is(err, want) || (err == nil) != (want == nil) || err == nil && !got.IsValid() {
			t.Errorf("%s: %v, %v", address, got, err)
		}
	}
}
