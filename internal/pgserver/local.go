package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// dirPrefix begins the name of each server's directory in the temporary directory.
	dirPrefix = "syncd-pg-"
	// ownerFile in it is locked while the program that made the server lives.
	ownerFile = "owner"
	// socketPort names the socket of a server that listens on no TCP port. Each has a socket directory of its own.
	socketPort = 5432
	// portTries bounds how often another free port is taken when somebody was quicker to listen on one.
	portTries = 5
)

// local is a server made of binaries on this machine. Its directory holds the data, the socket and the log.
type local struct {
	bin   binaries
	dir   string
	data  string
	user  *ordinary // nil: the program's own user
	owner *os.File  // its lock says that the program lives

	process *process // the postmaster; nil while none runs
	stopped bool
}

// process is a postmaster that was started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
}

// startLocal makes a cluster with initdb and starts it. prepare, where given, may put files into the directory first.
func startLocal(ctx context.Context, o Options, b binaries, origin string, prepare func(*local) error) (*Server, error) {
	l, err := newLocal(b)
	if err != nil {
		return nil, err
	}
	s, err := l.make(ctx, o, origin, prepare)
	if err != nil {
		return nil, errors.Join(err, l.stop())
	}
	return s, nil
}

func (l *local) make(ctx context.Context, o Options, origin string, prepare func(*local) error) (*Server, error) {
	if prepare != nil {
		if err := prepare(l); err != nil {
			return nil, err
		}
	}
	password := rand.Text()
	if err := l.initdb(ctx, password); err != nil {
		return nil, err
	}
	if o.Epoch != 0 && l.bin.has("pg_resetwal") {
		if err := l.run(ctx, "pg_resetwal", "-e", strconv.FormatUint(uint64(o.Epoch), 10), "-D", l.data); err != nil {
			return nil, err
		}
	}
	return l.serve(ctx, o, origin, password)
}

// newLocal makes the directory of a server, after removing those whose programs are gone.
func newLocal(b binaries) (*local, error) {
	l := &local{bin: b}
	var err error
	if l.user, err = ordinaryUser(); err != nil {
		return nil, err
	}
	base := tempDir(l.user != nil)
	sweep(base)
	if l.dir, err = os.MkdirTemp(base, dirPrefix); err != nil {
		return nil, fmt.Errorf("make a directory for Postgres: %w", err)
	}
	l.data = filepath.Join(l.dir, "data")
	// Locked under another name first: a sweep of another program must never find it unlocked.
	unlocked := filepath.Join(l.dir, ownerFile+".new")
	if l.owner, err = os.Create(unlocked); err == nil {
		if err = lock(l.owner); err == nil {
			err = os.Rename(unlocked, filepath.Join(l.dir, ownerFile))
		}
	}
	if err == nil {
		// Its owner alone may enter: the socket asks for no password.
		err = l.user.own(l.dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a directory for Postgres: %w", err), l.stop())
	}
	return l, nil
}

// tempDir gives a directory whose path is short enough for a socket in it, and that the ordinary user can enter.
func tempDir(otherUser bool) string {
	dir := os.TempDir()
	const longest = 60 // a socket's path has at most 103 bytes (macOS)
	if len(dir) <= longest && (!otherUser || enterable(dir)) || runtime.GOOS == "windows" {
		return dir
	}
	return "/tmp"
}

// enterable says whether every user may walk into dir.
func enterable(dir string) bool {
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		st, err := os.Stat(d)
		if err != nil || st.Mode().Perm()&1 == 0 {
			return false
		}
		if d == filepath.Dir(d) {
			return true
		}
	}
}

// sweep removes the directories of servers whose programs were killed. Failures don't matter: they lie in a temporary
// directory.
func sweep(base string) {
	dirs, err := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
	if err != nil {
		return
	}
	for _, d := range dirs {
		f, err := os.OpenFile(filepath.Join(d, ownerFile), os.O_RDWR, 0)
		if err != nil {
			continue // somebody else's, or being made
		}
		if lock(f) == nil && !alive(readPID(filepath.Join(d, "data"))) {
			os.RemoveAll(d)
		}
		f.Close()
	}
}

// run runs one of the programs to its end, as the ordinary user.
func (l *local) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, l.bin.path(program), args...)
	l.confine(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s: %w: %s%s", program, err, tail(string(out)), l.hint(err))
	}
	return nil
}

// hint says what to do about an error that the change of user explains.
func (l *local) hint(err error) string {
	if l.user != nil && errors.Is(err, os.ErrPermission) {
		return fmt.Sprintf("; as root Postgres runs as user %s, who has to be able to enter %s: chmod a+rx it and the directories above it", l.user.name, l.bin.dir)
	}
	return ""
}

func (l *local) confine(cmd *exec.Cmd) {
	cmd.Dir = l.dir
	cmd.Env = environment(l.dir)
	cmd.SysProcAttr = l.user.attributes()
}

func (l *local) initdb(ctx context.Context, password string) error {
	pw := filepath.Join(l.dir, "password")
	if err := os.WriteFile(pw, []byte(password+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the password for initdb: %w", err)
	}
	if err := l.user.own(pw); err != nil {
		return err
	}
	err := l.run(ctx, "initdb", "-D", l.data, "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync",
		"--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile="+pw)
	return errors.Join(err, os.Remove(pw))
}

// serve configures and starts what lies in the data directory.
func (l *local) serve(ctx context.Context, o Options, origin, password string) (*Server, error) {
	for try := 1; ; try++ {
		port, err := pickPort(o.TCP)
		if err != nil {
			return nil, err
		}
		if err := l.configure(o, port); err != nil {
			return nil, err
		}
		s := &Server{origin: origin, url: socketURL(l.dir, port), backend: l}
		if o.TCP {
			s.tcp = &url.URL{Scheme: "postgres", User: url.UserPassword("postgres", password),
				Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), RawQuery: "sslmode=disable"}
		}
		if err = s.Start(ctx); err == nil {
			err = s.greet(ctx)
		}
		if err == nil {
			return s, nil
		}
		if try == portTries || !o.TCP || !strings.Contains(l.log(), "could not create any TCP/IP sockets") {
			return nil, err
		}
		if err := os.Remove(l.logFile()); err != nil {
			return nil, err
		}
	}
}

// pickPort gives a port that is free at this moment.
func pickPort(tcp bool) (int, error) {
	if !tcp {
		return socketPort, nil
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("look for a free port: %w", err)
	}
	return ln.Addr().(*net.TCPAddr).Port, ln.Close()
}

// configure appends to postgresql.conf, so that ALTER SYSTEM still has the last word.
func (l *local) configure(o Options, port int) error {
	set := map[string]string{
		"port":                       strconv.Itoa(port),
		"listen_addresses":           "",
		"unix_socket_directories":    l.dir,
		"unix_socket_permissions":    "0700",
		"wal_level":                  "logical",
		"max_wal_senders":            "50",
		"max_replication_slots":      "50",
		"max_connections":            "200",
		"max_prepared_transactions":  "20",
		"dynamic_shared_memory_type": "mmap", // its files go with the data directory, also after a kill
		"logging_collector":          "off",
	}
	if o.TCP {
		set["listen_addresses"] = "127.0.0.1"
	}
	if !o.Durable {
		set["fsync"], set["full_page_writes"] = "off", "off"
	}
	maps.Copy(set, o.Settings)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(set)) {
		fmt.Fprintf(&b, "%s = '%s'\n", k, strings.ReplaceAll(set[k], "'", "''"))
	}
	f, err := os.OpenFile(filepath.Join(l.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("configure Postgres: %w", err)
	}
	_, err = f.WriteString(b.String())
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("configure Postgres: %w", err)
	}
	return nil
}

// start starts the postmaster as a child of this program. It does not wait for it to answer.
func (l *local) start(ctx context.Context) error {
	if l.stopped {
		return errors.New("start Postgres: it was stopped for good")
	}
	if l.process != nil && !closed(l.process.done) {
		return errors.New("start Postgres: it is running")
	}
	log, err := os.OpenFile(l.logFile(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of Postgres: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(l.bin.path("postgres"), "-D", l.data)
	l.confine(cmd)
	dieWithParent(cmd.SysProcAttr)
	cmd.Stdout, cmd.Stderr = log, log
	p := &process{cmd, make(chan struct{})}
	begun := make(chan error, 1)
	go p.run(begun)
	if err := <-begun; err != nil {
		return fmt.Errorf("start Postgres: %w%s", err, l.hint(err))
	}
	l.process = p
	return ctx.Err()
}

// run starts the process and waits for it, all on one thread that it keeps to itself: the kernel sends the parent's
// death signal when the thread that made the child ends, and the scheduler may end a thread at any time.
func (p *process) run(begun chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	begun <- err
	if err == nil {
		// How it ended is read from its log; that it ended is what is waited for.
		_ = p.cmd.Wait()
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ended is closed when the postmaster has ended.
func (l *local) ended() <-chan struct{} { return l.process.done }

func (l *local) pid() int {
	if l.process == nil || closed(l.process.done) {
		return 0
	}
	return l.process.cmd.Process.Pid
}

func (l *local) logFile() string { return filepath.Join(l.dir, "log") }

func (l *local) log() string {
	b, err := os.ReadFile(l.logFile())
	if err != nil {
		return err.Error()
	}
	return tail(string(b))
}

// tail gives the last lines of a program's output.
func tail(s string) string {
	const most = 4000
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return strings.ToValidUTF8(strings.TrimSpace(s), "?")
}

// shutdown asks for a fast shutdown and waits. A walsender whose client doesn't answer can hold one up for long: when
// ctx ends the server is ended at once instead, which loses nothing that was committed.
func (l *local) shutdown(ctx context.Context) error {
	if l.pid() == 0 {
		return nil
	}
	if err := l.signal(syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-l.ended():
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("shut Postgres down: %w", ctx.Err()), l.abort())
	}
}

func (l *local) signal(sig os.Signal) error {
	if err := l.process.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal Postgres: %w", err)
	}
	return nil
}

// abort ends the server in the immediate mode, and by SIGKILL where even that takes long.
func (l *local) abort() error {
	if l.pid() == 0 {
		return nil
	}
	if err := l.signal(syscall.SIGQUIT); err != nil {
		return err
	}
	select {
	case <-l.ended():
		return nil
	case <-time.After(10 * time.Second):
		return l.kill()
	}
}

// kill ends the postmaster and its children by SIGKILL, and waits until all are gone.
func (l *local) kill() error {
	pid := l.pid()
	if pid == 0 {
		return nil
	}
	segment := sharedMemory(l.data)
	// Stopped, it makes no more children while they are counted.
	if err := l.signal(sigStop); err != nil {
		return err
	}
	children, err := childrenOf(pid)
	if err != nil {
		return errors.Join(fmt.Errorf("kill Postgres: %w", err), l.signal(sigContinue))
	}
	for _, c := range children {
		killPID(c)
	}
	if err := l.signal(os.Kill); err != nil {
		return err
	}
	<-l.ended()
	for _, c := range children {
		for alive(c) {
			time.Sleep(time.Millisecond)
		}
	}
	removeSharedMemory(segment)
	return nil
}

func (l *local) stop() error {
	if l.stopped {
		return nil
	}
	l.stopped = true
	var err error
	if l.process != nil {
		err = l.abort()
	}
	if l.owner != nil {
		err = errors.Join(err, l.owner.Close())
	}
	if e := os.RemoveAll(l.dir); e != nil {
		err = errors.Join(err, fmt.Errorf("remove the files of Postgres: %w", e))
	}
	return err
}

// readPID reads the postmaster's id from its pid file; 0 where there is none.
func readPID(data string) int {
	pid, err := strconv.Atoi(pidLine(data, 0))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// sharedMemory reads the id of the postmaster's System V segment, by which it finds a server that still runs in the
// same directory; -1 where there is none.
func sharedMemory(data string) int {
	const line = 6 // LOCK_FILE_LINE_SHMEM_KEY of Postgres's pidfile.h, counted from 0: key and id
	f := strings.Fields(pidLine(data, line))
	if len(f) != 2 {
		return -1
	}
	id, err := strconv.Atoi(f[1])
	if err != nil {
		return -1
	}
	return id
}

func pidLine(data string, n int) string {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return ""
	}
	lines := strings.Split(string(b), "\n")
	if n >= len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[n])
}
