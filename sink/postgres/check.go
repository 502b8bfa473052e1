package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// oldest is the oldest version that the tests run on.
const oldest = 14

// Check looks at everything that a store of these tables needs of its server, and changes nothing. tables may be empty, where
// they are not known yet. publication is that of the source, which the schema must not be in where it is in the same database.
// Preconditions come in a fixed order; where the server can't be reached there is only that one.
func Check(ctx context.Context, o Options, tables []syncd.Table, publication string) []sink.Precondition {
	o.Log = slog.New(slog.DiscardHandler)
	p, err := newPlace(o)
	if err != nil {
		return []sink.Precondition{{Name: "url", Detail: err.Error()}}
	}
	defer p.Close()
	conn, err := pgx.ConnectConfig(ctx, p.config.ConnConfig)
	if err != nil {
		return []sink.Precondition{{Name: "server", Detail: p.say("connect", err).Error(), Mend: mendConnect(p, err), Unreachable: unreachable(err)}}
	}
	defer conn.Close(context.WithoutCancel(ctx))
	c := &checker{place: p, conn: conn}
	for _, one := range []func(context.Context) error{
		c.server, c.writable, c.encoding, c.rights, func(ctx context.Context) error { return c.names(ctx, tables) },
		func(ctx context.Context) error { return c.published(ctx, publication) }, c.owner,
	} {
		if err := one(ctx); err != nil {
			c.all = append(c.all, sink.Precondition{Name: "server", Detail: p.say("ask the server", err).Error(), Unreachable: conn.IsClosed()})
			break
		}
	}
	return c.all
}

// unreachable tells a server that is not there from one that has something against us.
func unreachable(err error) bool {
	var pg *pgconn.PgError
	return !errors.As(err, &pg)
}

func mendConnect(p *place, err error) string {
	switch code(err) {
	case "28P01", "28000":
		return "give the user's password in the url, and let it in by pg_hba.conf"
	case "3D000":
		return fmt.Sprintf("CREATE DATABASE %s, or name another in the url", syncd.QuoteIdent(p.config.ConnConfig.Database))
	}
	return ""
}

type checker struct {
	*place
	conn     *pgx.Conn
	database string
	role     string
	there    bool // the schema
	all      []sink.Precondition
}

func (c *checker) add(name string, ok bool, detail, mend string) {
	c.all = append(c.all, sink.Precondition{Name: name, OK: ok, Detail: detail, Mend: mend})
}

func (c *checker) ask(ctx context.Context, sql string, args []any, to ...any) error {
	return c.conn.QueryRow(ctx, sql, args...).Scan(to...)
}

func (c *checker) server(ctx context.Context) error {
	var v int
	err := c.ask(ctx, `SELECT pg_catalog.current_setting('server_version_num')::int, pg_catalog.current_database(), current_user,
		pg_catalog.to_regnamespace($1) IS NOT NULL`, []any{syncd.QuoteIdent(c.schema)}, &v, &c.database, &c.role, &c.there)
	if err != nil {
		return err
	}
	advice := ""
	if v/10000 < oldest {
		advice = fmt.Sprintf("the tests run on Postgres %d and newer: upgrade where you can", oldest)
	}
	c.add("server", true, fmt.Sprintf("Postgres %d.%d, database %s, role %s, schema %s", v/10000, v%10000, c.database, c.role, c.schema), advice)
	return nil
}

func (c *checker) writable(ctx context.Context) error {
	var standby, readOnly bool
	err := c.ask(ctx, "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('default_transaction_read_only')::bool", nil, &standby, &readOnly)
	switch {
	case err != nil:
		return err
	case standby:
		c.add("writes", false, "the server is a standby", "name the primary in the url")
	case readOnly:
		c.add("writes", false, "default_transaction_read_only is on", fmt.Sprintf("ALTER ROLE %s SET default_transaction_read_only = off", syncd.QuoteIdent(c.role)))
	default:
		c.add("writes", true, "the server takes them", "")
	}
	return nil
}

func (c *checker) encoding(ctx context.Context) error {
	var name string
	if err := c.ask(ctx, "SELECT pg_catalog.current_setting('server_encoding')", nil, &name); err != nil {
		return err
	}
	mend := ""
	if name != "UTF8" {
		mend = "name a database made with ENCODING 'UTF8': this one can't hold every row"
	}
	c.add("encoding", name == "UTF8", name, mend)
	return nil
}

// rights looks whether the role may make the schema, or tables and views in the one that is there, and whether what is there of
// an earlier run is the role's to change.
func (c *checker) rights(ctx context.Context) error {
	role, schema := syncd.QuoteIdent(c.role), syncd.QuoteIdent(c.schema)
	if !c.there {
		var may bool
		if err := c.ask(ctx, "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')", nil, &may); err != nil {
			return err
		}
		detail, mend := fmt.Sprintf("role %s may make schema %s", c.role, c.schema), ""
		if !may {
			detail = fmt.Sprintf("role %s may not make schema %s", c.role, c.schema)
			mend = fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s; or CREATE SCHEMA %s AUTHORIZATION %s", syncd.QuoteIdent(c.database), role, schema, role)
		}
		c.add("rights", may, detail, mend)
		return nil
	}
	var may bool
	if err := c.ask(ctx, "SELECT pg_catalog.has_schema_privilege($1, 'CREATE') AND pg_catalog.has_schema_privilege($1, 'USAGE')", []any{c.schema}, &may); err != nil {
		return err
	}
	if !may {
		c.add("rights", false, fmt.Sprintf("role %s may not make tables in schema %s", c.role, c.schema), fmt.Sprintf("GRANT CREATE, USAGE ON SCHEMA %s TO %s", schema, role))
		return nil
	}
	others, err := c.texts(ctx, `SELECT format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname LIKE '\_syncd\_%' AND c.relkind IN ('r', 'v') AND NOT pg_catalog.pg_has_role(c.relowner, 'USAGE') ORDER BY 1`, c.schema)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		c.add("rights", false, fmt.Sprintf("role %s does not own %s", c.role, few(others)),
			fmt.Sprintf("make it the owner, such as by ALTER TABLE %s OWNER TO %s; or name another schema", others[0], role))
		return nil
	}
	c.add("rights", true, fmt.Sprintf("role %s may make tables and views in schema %s", c.role, c.schema), "")
	return nil
}

// names looks whether something that is not a store's has the name of what a store makes: in the schema of the source's own
// tables every one of them has.
func (c *checker) names(ctx context.Context, tables []syncd.Table) error {
	if !c.there {
		c.add("names", true, "nothing is in the way", "")
		return nil
	}
	wanted := map[string]syncd.Table{}
	names := make([]string, 0, len(tables))
	for _, t := range tables {
		wanted[visible(t)] = t
		names = append(names, visible(t))
	}
	// A view of a store's reads a table that begins as the store's do.
	taken, err := c.texts(ctx, `SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = ANY ($2) AND NOT (c.relkind = 'v' AND EXISTS (
			SELECT FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid
				AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
			JOIN pg_catalog.pg_class b ON b.oid = d.refobjid WHERE r.ev_class = c.oid AND b.relname LIKE '\_syncd\_rows\_%')) ORDER BY 1`, c.schema, names)
	if err != nil {
		return err
	}
	if len(taken) == 0 {
		c.add("names", true, "nothing is in the way", "")
		return nil
	}
	detail := fmt.Sprintf("schema %s has %s already", c.schema, few(taken))
	if slices.ContainsFunc(taken, func(name string) bool { return wanted[name].Schema == c.schema }) {
		detail += ": is it that of the source's own tables?"
	}
	c.add("names", false, detail, "name another schema, in which the sink is alone")
	return nil
}

// published looks whether the source's publication holds the schema: then each commit of the sink would come back as changes.
func (c *checker) published(ctx context.Context, publication string) error {
	var all bool
	err := c.ask(ctx, "SELECT puballtables FROM pg_catalog.pg_publication WHERE pubname = $1", []any{publication}, &all)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // it is another database than the source's
	}
	if err != nil {
		return err
	}
	tables, err := c.texts(ctx, "SELECT tablename FROM pg_catalog.pg_publication_tables WHERE pubname = $1 AND schemaname = $2 ORDER BY 1", publication, c.schema)
	if err != nil {
		return err
	}
	if all || len(tables) > 0 {
		c.add("publication", false, fmt.Sprintf("%s, which the source reads, publishes what is in schema %s", publication, c.schema),
			"keep the sink in another database, or have the publication list the source's tables alone (manage: true)")
		return nil
	}
	c.add("publication", true, fmt.Sprintf("%s publishes nothing of schema %s", publication, c.schema), "")
	return nil
}

// owner says who writes to the schema now. That is nothing to be mended: a second process waits.
func (c *checker) owner(ctx context.Context) error {
	by, err := c.texts(ctx, `SELECT coalesce(nullif(a.application_name, ''), 'another session') || ' (server process ' || l.pid || ')'
		FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND l.classid = $1 AND l.objid = $2
			AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())`,
		uint32(lockClass), uint32(syncd.Key(c.schema).Hash()))
	if err != nil {
		return err
	}
	if len(by) == 0 {
		c.add("in use", true, "by nobody", "")
		return nil
	}
	c.add("in use", true, "by "+few(by), "where that is not the sidecar of this configuration, give this one another schema: it serves nothing while it waits")
	return nil
}

func (c *checker) texts(ctx context.Context, sql string, args ...any) ([]string, error) {
	rows, err := c.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// few names some of many.
func few(names []string) string {
	if len(names) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:5], ", "), len(names)-5)
	}
	return strings.Join(names, ", ")
}
