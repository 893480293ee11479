package gitserver

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// secrets are drawn for every environment.
type secrets struct {
	key, internal, tokens string
}

func newSecrets() (secrets, error) {
	var drawn [3]string
	for i := range drawn {
		secret, err := randomText()
		if err != nil {
			return secrets{}, err
		}
		drawn[i] = secret
	}
	return secrets{key: drawn[0], internal: drawn[1], tokens: drawn[2]}, nil
}

// randomText is 32 random bytes in the form that Gitea requires for signing keys; it
// serves for passwords too.
func randomText() (string, error) {
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("drawing a secret: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(random), nil
}

// writeSettings writes app.ini. Everything that could leave the machine or cost
// start-up time without use to anybody is off: mirrors, updates, avatars, indexes,
// packages, actions, cron.
func (s *Server) writeSettings(drawn secrets) error {
	text := fmt.Sprintf(`APP_NAME = Poolwright sandbox
RUN_MODE = prod
WORK_PATH = %[1]s
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[2]d
ROOT_URL = %[3]s/
STATIC_ROOT_PATH = %[4]s
OFFLINE_MODE = true
DISABLE_SSH = true
[database]
DB_TYPE = sqlite3
PATH = %[1]s/gitea.db
SQLITE_JOURNAL_MODE = WAL
SQLITE_TIMEOUT = 10000
LOG_SQL = false
[security]
INSTALL_LOCK = true
SECRET_KEY = %[5]s
INTERNAL_TOKEN = %[6]s
[oauth2]
ENABLED = false
JWT_SECRET = %[7]s
[service]
DISABLE_REGISTRATION = true
[repository]
DEFAULT_BRANCH = main
[webhook]
ALLOWED_HOST_LIST = loopback
[migrations]
ALLOWED_DOMAINS = 127.0.0.1
[log]
MODE = console
LEVEL = Warn
[indexer]
ISSUE_INDEXER_TYPE = db
REPO_INDEXER_ENABLED = false
[queue]
TYPE = channel
[session]
PROVIDER = memory
[mailer]
ENABLED = false
[packages]
ENABLED = false
[actions]
ENABLED = false
[cron]
ENABLED = false
[cron.update_checker]
ENABLED = false
`, s.config.Dir, s.port, s.URL(), s.config.Assets, drawn.key, drawn.internal, drawn.tokens)
	if err := os.WriteFile(s.settings(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing the Git server's settings: %w", err)
	}
	return nil
}

// createAdmin has Gitea draw the password and print it, because an argument
// could be read by every user of the machine.
func (s *Server) createAdmin(ctx context.Context) (Account, error) {
	const name = "platform"
	cmd := exec.CommandContext(ctx, s.config.Binary, "admin", "user", "create", "--config", s.settings(),
		"--admin", "--username", name, "--email", name+"@sandbox.invalid", "--must-change-password=false",
		"--random-password", "--random-password-length", "32",
		"--access-token", "--access-token-scopes", "all")
	cmd.Env, cmd.Dir = s.environment(), s.config.Dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return Account{}, fmt.Errorf("creating the Git server's administrator: %w\n%s", err, stderr.String())
	}
	password := regexp.MustCompile(`(?m)^generated random password is '(.*)'$`).FindSubmatch(output)
	token := regexp.MustCompile(`(?m)^Access token was successfully created\.\.\. ([0-9a-f]+)$`).FindSubmatch(output)
	if password == nil || token == nil {
		return Account{}, fmt.Errorf("creating the Git server's administrator: Gitea printed neither password nor token as this version should")
	}
	return Account{Name: name, Password: string(password[1]), Token: string(token[1])}, nil
}
