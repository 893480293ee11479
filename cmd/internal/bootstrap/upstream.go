package bootstrap

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

// upstream is what a working copy records of the repository that it was cloned from.
type upstream struct {
	// address is the remote's URL as Git has it, which may hold credentials;
	// empty where there is none.
	address string
	// branch is checked out; empty for a detached HEAD.
	branch string
	// ahead is true when the commit that is checked out is not the one that was last
	// fetched of the branch of the remote.
	ahead bool
}

// readUpstream reads the working copy whose root is given. Without one it returns
// the zero value.
func readUpstream(root string) (upstream, error) {
	repo, err := git.PlainOpenWithOptions(root, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return upstream{}, nil
	}
	if err != nil {
		return upstream{}, fmt.Errorf("reading the Git repository in %s: %w", root, err)
	}
	var o upstream
	if remote, err := repo.Remote("origin"); err == nil && len(remote.Config().URLs) > 0 {
		o.address = remote.Config().URLs[0]
	}
	head, err := repo.Reference(plumbing.HEAD, false)
	if err != nil || head.Type() != plumbing.SymbolicReference || !head.Target().IsBranch() {
		return o, nil
	}
	o.branch = head.Target().Short()
	mine, err := repo.Reference(head.Target(), true)
	if err != nil {
		o.ahead = true // There is no commit yet.
		return o, nil
	}
	theirs, err := repo.Reference(plumbing.NewRemoteReferenceName("origin", o.branch), true)
	o.ahead = err != nil || theirs.Hash() != mine.Hash()
	return o, nil
}

// uncommitted lists the files in a folder of a working copy that differ from the
// commit that is checked out, ignored ones apart; none where there is no Git.
func uncommitted(root, folder string) ([]string, error) {
	repo, err := git.PlainOpenWithOptions(root, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Git repository in %s: %w", root, err)
	}
	tree, err := repo.Worktree()
	if err != nil {
		return nil, fmt.Errorf("reading the working copy in %s: %w", root, err)
	}
	status, err := tree.Status()
	if err != nil {
		return nil, fmt.Errorf("comparing the working copy in %s: %w", root, err)
	}
	var out []string
	for name, file := range status {
		changed := file.Worktree != git.Unmodified || file.Staging != git.Unmodified
		if changed && (folder == "." || strings.HasPrefix(name, folder+"/")) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// scpLike matches user@host:path, Git's short form of ssh.
var scpLike = regexp.MustCompile(`^(?:([^@:/\s]+)@)?([^@:/\s]+):([^/].*)$`)

// fetchAddress turns a remote's address into one that the controller can fetch from. Passwords
// are dropped.
func fetchAddress(address string) (string, error) {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		switch u.Scheme {
		case "https", "http":
			u.User = nil
			return u.String(), nil
		case "ssh", "git+ssh":
			return sshAddress(u.User.Username(), u.Host, u.Path)
		}
	}
	if m := scpLike.FindStringSubmatch(address); m != nil && !strings.Contains(address, "://") {
		return sshAddress(m[1], m[2], m[3])
	}
	return "", errors.New("the remote origin is neither an https nor an ssh address: name the repository with --url https://HOST/PATH or --url ssh://git@HOST/PATH")
}

// forges are the hosts known to serve a repository by the same path, whether or not that is absolute.
var forges = []string{"github.com", "gitlab.com", "bitbucket.org", "codeberg.org"}

// homeWarning is what a person is to check of a remote in the short form, whose path is relative to the home of the user
// that logs in; empty where there is nothing to check. Forges have no homes, and serve /PATH alike.
func homeWarning(address string) string {
	m := scpLike.FindStringSubmatch(address)
	if m == nil || strings.Contains(address, "://") || strings.HasPrefix(m[3], "~") || slices.Contains(forges, strings.ToLower(m[2])) {
		return ""
	}
	home := &url.URL{Scheme: "ssh", User: url.User(m[1]), Host: m[2], Path: "/~/" + m[3]}
	return fmt.Sprintf("the path of the remote origin is relative, and the Sync has an absolute one, which forges take for the same: where %s is another server, on which the repository is in the home of the user, pass --url %s", m[2], home)
}

// sshAddress writes an address of ssh. Git would log in without a user as whoever runs it,
// and the controller is nobody.
func sshAddress(user, host, path string) (string, error) {
	out := &url.URL{Scheme: "ssh", User: url.User(user), Host: host, Path: "/" + strings.TrimPrefix(path, "/")}
	if user == "" {
		out.User = url.User("git")
		return "", fmt.Errorf("the remote origin is an ssh address without a user: pass --url %s, or the address that the host documents", out)
	}
	return out.String(), nil
}

// isSSH reports whether a repository is fetched by ssh.
func isSSH(address string) bool { return strings.HasPrefix(address, "ssh://") }

// overHTTPS is the address by https under which many hosts serve what they serve by ssh.
func overHTTPS(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "https://HOST/PATH"
	}
	return (&url.URL{Scheme: "https", Host: u.Hostname(), Path: u.Path}).String()
}
