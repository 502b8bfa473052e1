package daemon

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/source"
)

const everything = `
name: shop
source:
  postgres: postgres://one
  list_postgres: postgres://two
  list_concurrency: 3
  list_rate: 4
  slot: a_slot
  publication: a_publication
  manage: false
  max_slot_wal: 1GiB
  tables:
    - {table: public.users, columns: [id, name], where: "id > 7"}
    - 'public."Odd Name"'
bus:
  url: nats://one
  user: u
  password: p
  tls: {ca: ca.pem, cert: cert.pem, key: key.pem}
  stream: {max_age: 1h, max_bytes: 2GiB, replicas: 3}
sidecar:
  tables: [public.users]
`

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "syncd.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{File: file}, config.SourceRole|config.SidecarRole)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every key reaches its stage.
func TestConfigurationOfStages(t *testing.T) {
	c := load(t, everything)
	got, err := sourceConfig(c, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := source.Config{
		Name: "shop", Postgres: "postgres://one", ListPostgres: "postgres://two", Slot: "a_slot", Publication: "a_publication",
		MaxSlotWAL: 1 << 30, ListConcurrency: 3, ListRate: 4, Tables: []source.TableConfig{
			{Table: syncd.Table{Schema: "public", Name: "users"}, Columns: []string{"id", "name"}, Where: "id > 7", Generated: "omit"},
			{Table: syncd.Table{Schema: "public", Name: "Odd Name"}, Generated: "omit"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("source %+v\nwant   %+v", got, want)
	}
	b := busConfig(c, nil, "me", nil)
	if want := (bus.Config{URL: "nats://one", Name: "me", User: "u", Password: "p", TLSCA: "ca.pem", TLSCert: "cert.pem", TLSKey: "key.pem"}); b != want {
		t.Errorf("bus %+v\nwant %+v", b, want)
	}
	if l := limits(c); l != (bus.Limits{MaxAge: time.Hour, MaxBytes: 2 << 30, Replicas: 3}) {
		t.Errorf("limits %+v", l)
	}
	kept, err := keptOf(c)
	if err != nil || !reflect.DeepEqual(kept.tables, []syncd.Table{{Schema: "public", Name: "users"}}) {
		t.Errorf("tables %v %v", kept.tables, err)
	}
}

func TestLogger(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		log, level := NewLogger(config.Log{Level: "warn", Format: format}, &b)
		log.Info("unheard")
		log.Warn("heard")
		if strings.Contains(b.String(), "unheard") || !strings.Contains(b.String(), "heard") || (format == "json") != strings.HasPrefix(b.String(), "{") {
			t.Errorf("%s: %s", format, &b)
		}
		if setLevel(level, config.Log{Level: "debug"}); level.Level() != slog.LevelDebug {
			t.Errorf("level %s", level.Level())
		}
	}
}

// makeCert writes a certificate for 127.0.0.1 that signs itself, and its key.
func makeCert(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := makeCert(t, dir, "server")
	mine, myKey := makeCert(t, dir, "client")
	db := harness.Database(t)
	c := newConfig(t, db)
	c.Sidecar.Listen = "127.0.0.1:0"
	c.Sidecar.TLS = config.SidecarTLS{Cert: cert, Key: key, ClientCA: mine}
	address := make(chan string, 1)
	r := startRunning(t, c, db, func(o *Options) { o.Listening = func(a string) { address <- a } })
	at := harness.Receive(t, "the API to listen", address)
	if !strings.HasPrefix(at, "https://127.0.0.1:") {
		t.Errorf("address %s", at)
	}
	pool := x509.NewCertPool()
	text, err := os.ReadFile(cert)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	get := func(certificates ...tls.Certificate) error {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certificates}}
		defer tr.CloseIdleConnections()
		resp, err := (&http.Client{Transport: tr}).Get(at + "/healthz")
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	pair, err := tls.LoadX509KeyPair(mine, myKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := get(pair); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	if err := get(); err == nil {
		t.Error("without a certificate it answers")
	}
	r.ends()
}

func TestTLSFilesThatAreWrong(t *testing.T) {
	dir := t.TempDir()
	cert, key := makeCert(t, dir, "server")
	for _, c := range []config.SidecarTLS{{Cert: "/no/such", Key: key}, {Cert: cert, Key: cert}, {Cert: cert, Key: key, ClientCA: key}, {Cert: cert, Key: key, ClientCA: "/no/such"}} {
		if _, err := tlsConfig(c); err == nil || !strings.Contains(err.Error(), "sidecar.tls") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
