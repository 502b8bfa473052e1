package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldest is the oldest major version that is taken: what syncd supports.
const oldest = 14

// binaries are one version's programs, all in one directory.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// has says whether a program that not every distribution ships is there.
func (b binaries) has(program string) bool {
	_, err := os.Stat(b.path(program))
	return err == nil
}

// findBinaries gives the binaries in dir, or, where dir is empty, those in PATH, or the newest where the distributions
// put them.
func findBinaries(ctx context.Context, dir string) (binaries, error) {
	if dir != "" {
		b, err := inspect(ctx, dir)
		if err != nil {
			return b, fmt.Errorf("server binaries in %s: %w", dir, err)
		}
		return b, nil
	}
	for _, program := range []string{"postgres", "pg_ctl", "initdb"} {
		if p, err := exec.LookPath(program); err == nil {
			if p, err = filepath.EvalSymlinks(p); err == nil {
				if b, err := inspect(ctx, filepath.Dir(p)); err == nil {
					return b, nil
				}
			}
		}
	}
	return newest(ctx, places())
}

// places are where the distributions and installers put server binaries.
func places() []string {
	var dirs []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",                      // Debian, Ubuntu
		"/usr/pgsql-*/bin",                               // packages of postgresql.org for Fedora and its like
		"/usr/lib/postgresql*/bin",                       // SUSE, Gentoo
		"/usr/libexec/postgresql*",                       // Alpine
		"/opt/homebrew/opt/postgresql*/bin",              // Homebrew on Apple silicon
		"/usr/local/opt/postgresql*/bin",                 // Homebrew on Intel
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin", // Homebrew on Linux
		"/opt/local/lib/postgresql*/bin",                 // MacPorts
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/Library/PostgreSQL/*/bin", // the EDB installer
		"/usr/local/pgsql/bin",      // make install
		"/usr/local/bin",            // FreeBSD
	} {
		found, err := filepath.Glob(pattern)
		if err == nil { // the patterns are constants: it is nil
			dirs = append(dirs, found...)
		}
	}
	return dirs
}

// newest gives the usable binaries of the highest version among dirs.
func newest(ctx context.Context, dirs []string) (binaries, error) {
	var all []binaries
	for _, d := range dirs {
		if b, err := inspect(ctx, d); err == nil {
			all = append(all, b)
		}
	}
	if len(all) == 0 {
		return binaries{}, errors.New("no Postgres server binaries on this machine")
	}
	return slices.MaxFunc(all, func(a, b binaries) int { return cmp.Compare(a.major, b.major) }), nil
}

// inspect tells whether a directory has a whole, working set of binaries: wrappers that only print a hint, and client
// packages, are not.
func inspect(ctx context.Context, dir string) (binaries, error) {
	for _, program := range []string{"initdb", "postgres", "pg_ctl"} {
		if st, err := os.Stat(filepath.Join(dir, program)); err != nil || st.IsDir() {
			return binaries{}, fmt.Errorf("%s is not there", program)
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version")
	cmd.Env = environment("")
	out, err := cmd.Output()
	if err != nil {
		return binaries{}, fmt.Errorf("postgres --version: %w", err)
	}
	major, err := parseMajor(string(out))
	if err != nil {
		return binaries{}, err
	}
	if major < oldest {
		return binaries{}, fmt.Errorf("it is version %d; syncd needs %d or newer", major, oldest)
	}
	return binaries{dir, major}, nil
}

var versionLine = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d{1,4})`)

// parseMajor reads the major version out of what postgres --version prints.
func parseMajor(out string) (int, error) {
	m := versionLine.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("postgres --version printed %.80q", out)
	}
	return strconv.Atoi(m[1])
}

// environment is what the binaries run in: nothing that would send them, or the clients among them, elsewhere.
func environment(home string) []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "LC_") || name == "LANG" || name == "LANGUAGE" || name == "HOME" || name == "TZ" {
			continue
		}
		env = append(env, kv)
	}
	if home != "" {
		env = append(env, "HOME="+home)
	}
	return append(env, "LC_ALL=C", "TZ=UTC")
}
