package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/syncd-io/syncd"
)

// Result is what became of one precondition.
type Result struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	// Mend is the statement or the setting that mends it. Where OK is true it is advice.
	Mend string `json:"mend,omitempty"`
	// Unreachable says that the server could not be asked.
	Unreachable bool `json:"unreachable,omitempty"`
}

// Check looks at everything that a source needs of Postgres, and changes nothing. Results come in a fixed order; where the
// server can't be reached there is only that one.
func Check(ctx context.Context, c Config) []Result {
	c = c.Defaults()
	if err := c.Validate(); err != nil {
		return []Result{{Name: "configuration", Detail: err.Error()}}
	}
	s, err := openSession(ctx, c.Postgres, true)
	if err != nil {
		return []Result{{Name: "server", Detail: err.Error(), Unreachable: unreachable(err)}}
	}
	defer s.close()
	k := &checker{cfg: c, s: s}
	k.server()
	k.cfg.Manage = k.cfg.Manage && !s.server.standby
	for _, one := range [...]func(context.Context) error{
		k.standby, k.walLevel, k.slots, k.senders, k.replication, k.publication, k.tables, k.standbyNames, k.listServer,
	} {
		if err := one(ctx); err != nil {
			k.add(Result{Name: "server", Detail: err.Error(), Unreachable: s.IsClosed()})
			break
		}
	}
	return k.results
}

// unreachable tells a server that is not there from one that has something against us.
func unreachable(err error) bool {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) && !errors.As(err, &pg) || errors.Is(err, context.DeadlineExceeded)
}

type checker struct {
	cfg     Config
	s       *session
	results []Result
}

func (k *checker) add(r Result) { k.results = append(k.results, r) }

func (k *checker) ask(ctx context.Context, sql string, to ...any) error {
	if err := k.s.QueryRow(ctx, sql).Scan(to...); err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	return nil
}

func (k *checker) server() {
	v := k.s.server.version
	k.add(Result{Name: "server", OK: true, Detail: fmt.Sprintf("Postgres %d.%d, database %s, role %s", v/10000, v%10000, k.s.server.database, k.s.server.user)})
}

func (k *checker) walLevel(ctx context.Context) error {
	var level string
	if err := k.ask(ctx, "SELECT pg_catalog.current_setting('wal_level')", &level); err != nil {
		return err
	}
	r := Result{Name: "wal_level", OK: level == "logical", Detail: level}
	if !r.OK {
		r.Mend = "ALTER SYSTEM SET wal_level = logical, then restart the server; a managed service has a setting for it, which docs/providers.md names"
	}
	k.add(r)
	return nil
}

// slots looks at the slot, or at whether there is room for it, and at how much log slots may hold.
func (k *checker) slots(ctx context.Context) error {
	slot, _, err := readSlot(ctx, k.s, k.cfg.Slot)
	if err != nil {
		return err
	}
	var used, most int
	if err := k.ask(ctx, `SELECT (SELECT count(*) FROM pg_catalog.pg_replication_slots)::int, pg_catalog.current_setting('max_replication_slots')::int`, &used, &most); err != nil {
		return err
	}
	r := Result{Name: "replication slot", OK: true, Detail: fmt.Sprintf("%s will be made; %d of %d are in use", k.cfg.Slot, used, most)}
	p, ours := decideSlot(Facts{SlotName: k.cfg.Slot, Database: k.s.server.database, Slot: slot})
	switch {
	case slot.Exists && ours && p.Action == Stop:
		r.OK, r.Detail = false, p.Why
	case slot.Exists && slot.Lost:
		r.Detail = fmt.Sprintf("%s is lost%s: the next start makes it anew, and everything is listed again", k.cfg.Slot, parenthesized(slot.LostWhy))
	case slot.Exists:
		r.Detail = fmt.Sprintf("%s exists, confirmed up to %s", k.cfg.Slot, slot.Confirmed)
	case used >= most:
		r.OK, r.Mend = false, fmt.Sprintf("drop one that nobody needs (SELECT pg_drop_replication_slot(…)), or ALTER SYSTEM SET max_replication_slots = %d, then restart the server", most+5)
	}
	k.add(r)
	keep := Result{Name: "max_slot_wal_keep_size", OK: true, Detail: fmt.Sprintf("%d bytes", k.s.server.keepSize)}
	if danger, mend := ofKeepSize(k.s.server.keepSize, k.cfg.MaxSlotWAL); danger != "" {
		keep.Detail, keep.Mend = danger, mend
	}
	k.add(keep)
	return nil
}

// mendKeepSize bounds what slots may hold. The value lies above the default of max_slot_wal, so that syncd acts before the server does.
const mendKeepSize = "ALTER SYSTEM SET max_slot_wal_keep_size = '8GB'; SELECT pg_reload_conf() (on a managed service: its parameter of that name)"

// ofKeepSize says what is dangerous about the server's limit for slots, beside ours; nothing where it is well.
func ofKeepSize(keep, ours int64) (danger, mend string) {
	switch {
	case keep < 0:
		return "without limit: while no source runs, the slot may fill the server's disk", mendKeepSize
	case ours > 0 && keep < ours:
		return fmt.Sprintf("%d bytes, less than source.max_slot_wal, %d: the server drops the slot before syncd gives it up in order", keep, ours),
			fmt.Sprintf("source.max_slot_wal: %dMiB, or %s", keep/2>>20, mendKeepSize)
	}
	return "", ""
}

func (k *checker) senders(ctx context.Context) error {
	var used, most int
	if err := k.ask(ctx, `SELECT (SELECT count(*) FROM pg_catalog.pg_stat_replication)::int, pg_catalog.current_setting('max_wal_senders')::int`, &used, &most); err != nil {
		return err
	}
	r := Result{Name: "max_wal_senders", OK: used < most, Detail: fmt.Sprintf("%d of %d are in use", used, most)}
	if !r.OK {
		r.Mend = fmt.Sprintf("ALTER SYSTEM SET max_wal_senders = %d, then restart the server", most+5)
	}
	k.add(r)
	return nil
}

// mayReplicate asks for the role's right, and whether the server is one of Amazon RDS. That gives no role the attribute: being a
// member of rds_replication stands for it.
const mayReplicate = `SELECT u.rolreplication OR u.rolsuper OR coalesce(pg_catalog.pg_has_role(current_user, r.oid, 'MEMBER'), false), r.oid IS NOT NULL
FROM pg_catalog.pg_roles u LEFT JOIN pg_catalog.pg_roles r ON r.rolname = 'rds_replication' WHERE u.rolname = current_user`

// replication looks at the role's right, and makes a replication connection to see whether the server lets it in.
func (k *checker) replication(ctx context.Context) error {
	var may, rds bool
	if err := k.ask(ctx, mayReplicate, &may, &rds); err != nil {
		return err
	}
	r := Result{Name: "replication right", OK: may, Detail: "role " + k.s.server.user}
	if !may {
		r.Mend = fmt.Sprintf("ALTER ROLE %s REPLICATION", syncd.QuoteIdent(k.s.server.user))
		if rds {
			r.Mend = fmt.Sprintf("GRANT rds_replication TO %s", syncd.QuoteIdent(k.s.server.user))
		}
		k.add(r)
		return nil
	}
	c, _, err := openReplication(ctx, k.cfg.Postgres)
	if err != nil {
		r.OK, r.Detail = false, err.Error()
		r.Mend = "let the role make replication connections to the database in pg_hba.conf, then SELECT pg_reload_conf()"
	} else {
		closeReplication(c)
	}
	k.add(r)
	return nil
}

func (k *checker) publication(ctx context.Context) error {
	name := syncd.QuoteIdent(k.cfg.Publication)
	p, err := readPublication(ctx, k.s, k.cfg.Publication)
	if err != nil {
		return err
	}
	if p == nil && k.s.server.standby {
		return k.publicationOnPrimary(ctx)
	}
	var create bool
	if err := k.ask(ctx, "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')", &create); err != nil {
		return err
	}
	role := syncd.QuoteIdent(k.s.server.user)
	r := Result{Name: "publication", OK: true, Detail: k.cfg.Publication + " exists"}
	switch {
	case p == nil && !k.cfg.Manage:
		r = Result{Name: r.Name, Detail: "there is no publication " + k.cfg.Publication, Mend: fmt.Sprintf("CREATE PUBLICATION %s FOR TABLE …, or set manage: true", name)}
	case p == nil && !create:
		r = Result{Name: r.Name, Detail: "the role may not make publications", Mend: fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s", syncd.QuoteIdent(k.s.server.database), role)}
	case p == nil:
		r.Detail = k.cfg.Publication + " will be made"
	case k.cfg.Manage && p.AllTables:
		r = Result{Name: r.Name, Detail: k.cfg.Publication + " is FOR ALL TABLES and can't be kept to some", Mend: mendAllTables(k.cfg.Publication)}
	case k.cfg.Manage && !p.Owned:
		r = Result{Name: r.Name, Detail: "the role does not own " + k.cfg.Publication, Mend: fmt.Sprintf("ALTER PUBLICATION %s OWNER TO %s, or set manage: false", name, role)}
	case !k.cfg.Manage && !p.Actions:
		r = Result{Name: r.Name, Detail: k.cfg.Publication + " leaves out some kinds of changes", Mend: fmt.Sprintf("ALTER PUBLICATION %s SET (publish = 'insert, update, delete, truncate')", name)}
	}
	if r.OK && p != nil && k.cfg.Manage {
		schemas, err := publishedSchemas(ctx, k.s, k.cfg.Publication)
		if err != nil {
			return err
		}
		if len(schemas) > 0 {
			r.Detail += "; the schemas that it holds whole are taken out at the start: " + strings.Join(schemas, ", ")
		}
	}
	k.add(r)
	return nil
}

// tables judges each table as a source would.
func (k *checker) tables(ctx context.Context) error {
	r := newRoster(k.cfg)
	if err := r.look(ctx, k.s, lookOnly); err != nil {
		return err
	}
	for _, name := range r.order {
		t := r.get(name)
		no := t.verdict.Refused
		res := Result{Name: "table " + name.String(), OK: no.none(), Detail: no.why, Mend: no.mend}
		if res.OK {
			res.Detail = "key " + strings.Join(t.info.Key, ", ")
			if left := generatedLeftOut(t); len(left) > 0 {
				res.Detail += "; generated columns left out: " + strings.Join(left, ", ")
			}
			if err := k.owner(ctx, t, &res); err != nil {
				return err
			}
		}
		k.add(res)
	}
	return nil
}

// owner asks whether the table can be put into the publication, where it is not in it.
func (k *checker) owner(ctx context.Context, t *rosterTable, res *Result) error {
	if !k.cfg.Manage || t.facts.Published != nil {
		return nil
	}
	var owns bool
	err := k.s.QueryRow(ctx, "SELECT pg_catalog.pg_has_role(relowner, 'USAGE') FROM pg_catalog.pg_class WHERE oid = $1", t.facts.OID).Scan(&owns)
	if err != nil {
		return fmt.Errorf("ask for the owner of %s: %w", t.config.Table, err)
	}
	if !owns {
		res.OK, res.Detail = false, fmt.Sprintf("role %s does not own %s, and so can't put it into the publication", k.s.server.user, t.config.Table)
		add := (&keeper{publication: k.cfg.Publication}).addSQL(wanted{t.config, t.facts, t.verdict}, t.verdict.List)
		res.Mend = fmt.Sprintf("GRANT to %s the role that owns the table; or as the owner of both, once the publication exists: %s", syncd.QuoteIdent(k.s.server.user), add)
	}
	return nil
}

func generatedLeftOut(t *rosterTable) []string {
	var left []string
	for _, c := range t.facts.Columns {
		if c.Generated != "" && !slices.ContainsFunc(t.verdict.Columns, func(v columnFacts) bool { return v.Num == c.Num }) {
			left = append(left, c.Name)
		}
	}
	return left
}

// standbyNames looks whether the server would take us for a synchronous standby: then every commit would wait for our
// confirmation, which trails.
func (k *checker) standbyNames(ctx context.Context) error {
	var names, application string
	if err := k.ask(ctx, "SELECT pg_catalog.current_setting('synchronous_standby_names'), pg_catalog.current_setting('application_name')", &names, &application); err != nil {
		return err
	}
	r := Result{Name: "synchronous_standby_names", OK: true, Detail: names}
	if matchesStandby(names, application) {
		r.OK, r.Detail = false, fmt.Sprintf("%q takes syncd for a synchronous standby: every commit would wait for it", names)
		r.Mend = "name the real standbys in synchronous_standby_names instead of *, then SELECT pg_reload_conf()"
	}
	if names == "" {
		r.Detail = "empty"
	}
	k.add(r)
	return nil
}

// matchesStandby says whether a list of synchronous_standby_names holds * or an application's name.
func matchesStandby(names, application string) bool {
	for _, f := range strings.FieldsFunc(names, func(r rune) bool { return strings.ContainsRune(" ,()\"", r) }) {
		if f == "*" || strings.EqualFold(f, application) {
			return true
		}
	}
	return false
}

func (k *checker) listServer(ctx context.Context) error {
	if k.cfg.ListPostgres == k.cfg.Postgres {
		return nil
	}
	began := time.Now()
	s, err := openSession(ctx, k.cfg.ListPostgres, false)
	if err != nil {
		k.add(Result{Name: "list server", Detail: err.Error(), Unreachable: unreachable(err)})
		return nil
	}
	defer s.close()
	if k.s.server.standby && !s.server.standby {
		k.add(Result{Name: "list server", Detail: errListOnPrimary.Error(), Mend: "leave list_postgres out, or name a standby there"})
		return nil
	}
	r := Result{Name: "list server", OK: true, Detail: fmt.Sprintf("standby: %v, reached in %v", s.server.standby, time.Since(began).Round(time.Millisecond))}
	if s.server.system != 0 && k.s.server.system != 0 && s.server.system != k.s.server.system {
		r.OK, r.Detail = false, "it is not a copy of the primary: its system identifier is another"
		r.Mend = "give the address of a standby of the primary in list_postgres"
	}
	k.add(r)
	return nil
}
