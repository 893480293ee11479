package remote

// Credentials authenticate to the server.
type Credentials struct {
	// Username may be empty when Password is a token.
	Username string
	// Password is a password or an access token.
	Password string
	// CABundle holds PEM certificates that are trusted beside the system's.
	CABundle []byte
}

// String never shows the values.
func (c Credentials) String() string { return "credentials (hidden)" }

// GoString never shows the values.
func (c Credentials) GoString() string { return c.String() }
