package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd/internal/pgserver"
)

// rig is what every benchmark needs: a Postgres of its own, the syncd command, a directory.
type rig struct {
	pg     *pgserver.Server
	url    string
	dir    string
	binary string
	conn   *pgx.Conn
}

func newRig(ctx context.Context, tcp bool) (*rig, error) {
	dir, err := os.MkdirTemp("", "syncd-bench-")
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, binary: filepath.Join(dir, "syncd")}
	build := exec.CommandContext(ctx, "go", "build", "-o", r.binary, "github.com/syncd-io/syncd/cmd/syncd")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("build syncd: %w", err), r.close())
	}
	r.pg, err = pgserver.Start(ctx, pgserver.Options{Own: true, TCP: tcp, Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "16GB", "checkpoint_timeout": "1h",
	}})
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.url = r.pg.URL("postgres")
	if tcp {
		r.url = r.pg.TCPURL("postgres")
	}
	if r.conn, err = pgx.Connect(ctx, r.pg.URL("postgres")); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) close() error {
	var errs []error
	if r.conn != nil {
		errs = append(errs, r.conn.Close(context.Background()))
	}
	if r.pg != nil {
		errs = append(errs, r.pg.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

func (r *rig) exec(ctx context.Context, sql string) error {
	if _, err := r.conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("%.60s: %w", sql, err)
	}
	return nil
}

func (r *rig) lsn(ctx context.Context) (lsn string, err error) {
	err = r.conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&lsn)
	return lsn, err
}

// fill makes the table item: rows whose JSON has about 200 bytes.
func (r *rig) fill(ctx context.Context, rows int) error {
	if err := r.exec(ctx, `CREATE TABLE item (id bigint PRIMARY KEY, customer bigint NOT NULL, sku text NOT NULL,
		note text NOT NULL, price numeric(10,2) NOT NULL, amount int NOT NULL, changed timestamptz NOT NULL)`); err != nil {
		return err
	}
	if err := r.exec(ctx, fmt.Sprintf(`INSERT INTO item SELECT i, i %% 9973, 'sku-' || i, left(md5(i::text) || md5(i::text), 60), (i %% 10000) / 100.0,
		0, '2026-01-01 00:00:00.123456+00'::timestamptz + i * interval '1 ms' FROM generate_series(1, %d) i`, rows)); err != nil {
		return err
	}
	return r.exec(ctx, "VACUUM ANALYZE item")
}

// daemon is one running syncd process.
type daemon struct {
	cmd  *exec.Cmd
	addr string
	log  string
}

// config writes a syncd.yaml and gives its path and the sidecar's address.
func (r *rig) config(name, bus string) (path, addr string, err error) {
	port, err := freePort()
	if err != nil {
		return "", "", err
	}
	addr = "127.0.0.1:" + strconv.Itoa(port)
	path = filepath.Join(r.dir, name+".yaml")
	text := fmt.Sprintf(`name: %s
source: {postgres: %q, tables: [public.item]}
bus: %s
sidecar: {listen: %q, data: %q, resync: {interval: 24h, jitter: 0}}
`, name, r.url, bus, addr, filepath.Join(r.dir, name, "sidecar"))
	return path, addr, os.WriteFile(path, []byte(text), 0o600)
}

func (r *rig) start(ctx context.Context, command, config, addr string) (*daemon, error) {
	d := &daemon{addr: addr, log: config + "." + command + ".log"}
	out, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	d.cmd = exec.CommandContext(ctx, r.binary, command, "-c", config)
	d.cmd.Stdout, d.cmd.Stderr = out, out
	return d, d.cmd.Start()
}

// stop ends the process as an operator does and waits for it.
func (d *daemon) stop() error {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := d.cmd.Wait(); err != nil {
		log, _ := os.ReadFile(d.log)
		return fmt.Errorf("syncd ended with %w; its log ends: %s", err, tail(log, 2000))
	}
	return nil
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// reached waits until the cache is complete through lsn.
func (d *daemon) reached(ctx context.Context, lsn string) error {
	url := "http://" + d.addr + "/v1/tables/public.item/rows/1?timeout=1m&min_version=" + lsn
	deadline := time.Now().Add(time.Hour)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("%s: %s", res.Status, body)
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			log, _ := os.ReadFile(d.log)
			return fmt.Errorf("wait for %s: %w; the log ends: %s", lsn, err, tail(log, 2000))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// resident gives the process's resident memory and its peak, in bytes.
func (d *daemon) resident() (now, peak int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmRSS:":
			now = kb << 10
		case "VmHWM:":
			peak = kb << 10
		}
	}
	return now, peak, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// replaceName gives the configuration at path another name: a sidecar's must be its source's.
func replaceName(path, from, to string) error {
	return replaceText(path, "name: "+from+"\n", "name: "+to+"\n")
}

func replaceText(path, from, to string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(b), from, to, 1)), 0o600)
}

// cpu gives the processor time that the process has used.
func (d *daemon) cpu() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on Linux
}
