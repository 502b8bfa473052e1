package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/natsserver"
	"github.com/syncd-io/syncd/source"
)

// sourceConfig is what the configuration says to the source's stages.
func sourceConfig(c *config.Config, log *slog.Logger, o source.Observer) (source.Config, error) {
	s := source.Config{
		Name:            c.Name,
		Postgres:        c.Source.Postgres.Reveal(),
		ListPostgres:    c.Source.ListPostgres.Reveal(),
		Slot:            c.Source.Slot,
		Publication:     c.Source.Publication,
		Manage:          c.Source.Manage,
		MaxSlotWAL:      int64(c.Source.MaxSlotWAL),
		ListConcurrency: c.Source.ListConcurrency,
		ListRate:        c.Source.ListRate,
		Logger:          log,
		Observer:        o,
	}
	for _, t := range c.Source.Tables {
		name, err := syncd.ParseTable(t.Table)
		if err != nil {
			return s, fmt.Errorf("source.tables: %w", err)
		}
		s.Tables = append(s.Tables, source.TableConfig{Table: name, Columns: t.Columns, Where: t.Where, Generated: t.Generated})
	}
	return s, nil
}

// busConfig is what the configuration says to those who connect to NATS. inProcess is the embedded server, or nil.
func busConfig(c *config.Config, inProcess *natsserver.Server, name string, log *slog.Logger) bus.Config {
	b := bus.Config{
		URL:      c.Bus.URL.Reveal(),
		Name:     name,
		Creds:    c.Bus.Creds,
		NKey:     c.Bus.NKey,
		User:     c.Bus.User,
		Password: c.Bus.Password.Reveal(),
		Token:    c.Bus.Token.Reveal(),
		TLSCA:    c.Bus.TLS.CA,
		TLSCert:  c.Bus.TLS.Cert,
		TLSKey:   c.Bus.TLS.Key,
		Log:      log,
	}
	if inProcess != nil {
		b.InProcess = inProcess
	}
	return b
}

func limits(c *config.Config) bus.Limits {
	s := c.Bus.Stream
	return bus.Limits{MaxAge: s.MaxAge, MaxBytes: int64(s.MaxBytes), Replicas: s.Replicas}
}

// embeddedConfig is what the configuration says to the NATS in this process. Whoever connects to its port is asked for
// what the bus is configured with.
func embeddedConfig(c *config.Config, log *slog.Logger) natsserver.Config {
	return natsserver.Config{
		Dir:    c.Bus.Embedded.Dir,
		Listen: c.Bus.Embedded.Listen,
		Log:    log,
		Options: func(o *server.Options) {
			o.Username, o.Password, o.Authorization = c.Bus.User, c.Bus.Password.Reveal(), c.Bus.Token.Reveal()
		},
	}
}

// tlsConfig reads the API's certificate; nil where it has none.
func tlsConfig(c config.SidecarTLS) (*tls.Config, error) {
	if c.Cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("sidecar.tls: %w", err)
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if c.ClientCA != "" {
		pem, err := os.ReadFile(c.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("sidecar.tls.client_ca: %w", err)
		}
		t.ClientAuth, t.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !t.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("sidecar.tls.client_ca: %s holds no PEM certificate", c.ClientCA)
		}
	}
	return t, nil
}
