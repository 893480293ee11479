// Command forge is a real Gitea, unchanged, from its Go module: the Git
// server of the sandbox, with users, tokens, repositories and pull requests.
//
// It takes Gitea's own subcommands (`web`, `admin user create`, and `hook`,
// which its repositories call on every push). Templates and translations are
// not inside the file: STATIC_ROOT_PATH in app.ini must name a folder that
// holds them. It is a module of its own because Gitea pins forks that the
// product must not inherit.
package main

import (
	"os"
	"runtime"
	"time"

	"code.gitea.io/gitea/cmd"
	"code.gitea.io/gitea/modules/log"
	_ "code.gitea.io/gitea/modules/markup/console"
	_ "code.gitea.io/gitea/modules/markup/csv"
	_ "code.gitea.io/gitea/modules/markup/markdown"
	"code.gitea.io/gitea/modules/setting"
	"github.com/urfave/cli/v3"
)

func main() {
	os.Exit(run())
}

// version is the release that go.mod pins; Gitea shows it in its API and on
// its pages, and picks its database migrations by itself.
const version = "1.26.4"

func run() int {
	setting.AppVer = version
	setting.AppBuiltWith = " built with " + runtime.Version()
	setting.AppStartTime = time.Now().UTC()
	// Gitea exits from inside its commands; without this the last lines of its log, which
	// have the reason, would stay in memory.
	cli.OsExiter = func(code int) {
		log.GetManager().Close()
		os.Exit(code)
	}
	err := cmd.RunMainApp(cmd.NewMainApp(cmd.AppVersion{Version: version, Extra: setting.AppBuiltWith}), os.Args...)
	log.GetManager().Close()
	if err != nil {
		return 1
	}
	return 0
}
