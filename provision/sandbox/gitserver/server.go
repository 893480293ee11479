// Package gitserver runs a real Gitea of one's own on loopback: users, tokens,
// repositories, pushes over HTTP, pull requests, comments, statuses, webhooks.
//
// Each start draws new secrets, a new administrator and a new port, and begins
// with an empty database. The package refuses self-registration, SSH, and calls to any
// network but loopback. It implements nothing of Git: pushing and reading is the
// caller's, as a user would. Start reading at Start.
package gitserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// Config is with what and where to run. All fields are required.
type Config struct {
	// Binary is the Gitea binary; Assets is the folder of its templates,
	// options and public files.
	Binary, Assets string
	// Group owns the process; stopping it stops the server.
	Group *process.Group
	// Dir takes the database, repositories, settings and log. It must be
	// private.
	Dir string
}

// Server is a running Gitea.
type Server struct {
	config Config
	client *http.Client
	port   int
	admin  Account
	child  *process.Process
}

// Start runs Gitea and returns once it serves requests and its administrator exists.
func Start(ctx context.Context, config Config) (*Server, error) {
	s := &Server{config: config, client: &http.Client{Timeout: requestTimeout}}
	secrets, err := newSecrets()
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{s.config.Dir, s.path("home"), s.path("tmp")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("making a folder for the Git server: %w", err)
		}
	}
	err = process.WithPorts(func() error {
		if err := s.writeSettings(secrets); err != nil {
			return err
		}
		return s.Resume(ctx)
	}, &s.port)
	if err != nil {
		return nil, err
	}
	if s.admin, err = s.createAdmin(ctx); err != nil {
		return nil, errors.Join(err, s.child.Kill())
	}
	return s, nil
}

// requestTimeout bounds one call of Gitea's API on loopback.
const requestTimeout = 30 * time.Second

// Pause stops the server, as an outage would. Its data stays.
func (s *Server) Pause(ctx context.Context) error { return s.child.Stop(ctx) }

// Resume starts a paused server at the same address and returns once it serves
// requests.
func (s *Server) Resume(ctx context.Context) error {
	child, err := s.config.Group.Start(process.Spec{
		Name: "gitea", Path: s.config.Binary, Args: []string{"web", "--config", s.settings()},
		Env: s.environment(), Dir: s.config.Dir, Log: s.path("gitea.log"), Trial: true,
	})
	if err != nil {
		return err
	}
	if err := child.Ready(ctx, s.probe); err != nil {
		return errors.Join(err, child.Kill())
	}
	s.config.Group.Trust(child)
	s.child = child
	return nil
}

func (s *Server) probe(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/api/healthz", nil)
	if err != nil {
		return fmt.Errorf("reading the health of the Git server: %w", err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err // names method and URL already
	}
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("reading the Git server's health: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the Git server's health is %s", response.Status)
	}
	return nil
}

// URL is the server's address without a trailing slash.
func (s *Server) URL() string { return fmt.Sprintf("http://127.0.0.1:%d", s.port) }

// Admin is the administrator that Start made.
func (s *Server) Admin() Account { return s.admin }

func (s *Server) path(name string) string { return filepath.Join(s.config.Dir, name) }

func (s *Server) settings() string { return s.path("app.ini") }

// environment is all that Gitea and its git processes get. HOME keeps the user's own
// Git settings and hooks out of the server.
func (s *Server) environment() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.path("home"), "TMPDIR=" + s.path("tmp"),
		"GITEA_WORK_DIR=" + s.config.Dir, "GIT_CONFIG_NOSYSTEM=1",
	}
	if os.Geteuid() == 0 {
		// Gitea refuses root, because a hook would own the machine. Here only
		// the user who started the sandbox can push, and containers run as root.
		env = append(env, "GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT=true")
	}
	return env
}
