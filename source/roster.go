package source

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/syncd-io/syncd"
)

// roster is what is known of the configured tables. It is read by many, and brought up to date by whoever looks at the
// catalog: Watch once a second, and a Lister that met something unexpected.
type roster struct {
	cfg     Config
	catalog Catalog

	looking sync.Mutex // held for the length of a look
	keep    keeper
	kept    map[syncd.Table]*rosterTable // what the publication was last kept to
	refused map[syncd.Table]refusal      // by the last Keep
	retry   time.Time                    // when to try a refused Keep again

	looks atomic.Uint64 // counts the looks

	mu        sync.RWMutex
	tables    []TableConfig
	state     map[syncd.Table]*rosterTable
	order     []syncd.Table
	looked    time.Time
	truncated map[syncd.Table]bool // the stream had a TRUNCATE since the last look
	relists   map[syncd.Table]relist
	again     map[syncd.Table]unsure
	print     fingerprint // of state
	moment    moment      // of the last look
}

// relist is a table that consumers have to list again, until a marker that says so has been acknowledged.
type relist struct {
	why string
	// at is where the log ended when the cause was there: what the stream lacks lies before it. A marker tells of the cause
	// once it has passed at, since a list that has seen all that the marker has passed ends the cause.
	at   syncd.LSN
	told syncd.LSN // Through of the marker that says so; 0 where none does yet
}

// unsure is a table that has to be listed once more when the transactions have ended that were open at the look which found
// its cause: what they did before, they did to a table that was not in the publication then, and the first list may have
// been made before they were committed.
type unsure struct {
	why  string
	open *syncd.Snapshot
}

// moment is a place in the server's history: a snapshot, and where the log ended after it was taken.
type moment struct {
	snapshot *syncd.Snapshot
	end      syncd.LSN
}

// rosterTable is one configured table as it was at the last look. It is never changed.
type rosterTable struct {
	config  TableConfig
	facts   *tableFacts
	verdict verdict
	shape   *Shape // nil where the table is refused
	info    syncd.TableInfo
}

// refusalPatience is how long after a statement failed it is tried again, where nothing changed meanwhile.
const refusalPatience = 10 * time.Second

func newRoster(cfg Config) *roster {
	return &roster{
		cfg:       cfg,
		tables:    cfg.Tables,
		keep:      keeper{publication: cfg.Publication, filters: map[syncd.Table]filter{}},
		state:     map[syncd.Table]*rosterTable{},
		truncated: map[syncd.Table]bool{},
		relists:   map[syncd.Table]relist{},
		again:     map[syncd.Table]unsure{},
	}
}

// noteTruncate says that the stream carried a TRUNCATE of a table, which gives it new files.
func (r *roster) noteTruncate(t syncd.Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.truncated[t] = true
}

// setTables changes what is synced; the next look sees to it.
func (r *roster) setTables(tables []TableConfig) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tables = slices.Clone(tables)
	r.looked = time.Time{}
}

// infos gives what to tell of the tables, in the order of the configuration.
func (r *roster) infos() []syncd.TableInfo {
	r.mu.RLock()
	defer r.mu.RUnlock()
	infos := make([]syncd.TableInfo, 0, len(r.order))
	for _, t := range r.order {
		infos = append(infos, r.state[t].info)
	}
	return infos
}

// get gives a table as it was at the last look; nil where it is not configured.
func (r *roster) get(t syncd.Table) *rosterTable {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.state[t]
}

// misnamed gives the tables that are concerned where the stream has a relation under a name which another one had at the last
// look: the changes of one go to none or to another.
func (r *roster) misnamed(t syncd.Table, oid uint32) (tables []syncd.Table) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for name, s := range r.state {
		if s.shape != nil && s.facts != nil && (name == t) != (s.facts.OID == oid) {
			tables = append(tables, name)
		}
	}
	return tables
}

// age says how long ago the catalog was looked at.
func (r *roster) age() time.Duration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return time.Since(r.looked)
}

// care says what a look does about the publication.
type care uint8

const (
	lookOnly care = iota // another source leads
	keepUp               // keep it to the tables where anything changed
	keepAnew             // keep it to the tables in any case
)

// look reads the catalog, keeps the publication to the tables as c says, and marks the tables that have changed since the
// last look in a way that the stream does not carry to be listed again.
func (r *roster) look(ctx context.Context, s *session, c care) error {
	r.looking.Lock()
	defer r.looking.Unlock()
	r.mu.Lock()
	tables, old, truncated := r.tables, r.state, r.truncated
	r.truncated = map[syncd.Table]bool{}
	r.mu.Unlock()
	if len(tables) == 0 && !r.cfg.Manage {
		var err error
		if tables, err = publishedTables(ctx, s, r.cfg.Publication); err != nil {
			return err
		}
	}
	retyped, err := r.catalog.Refresh(ctx, s)
	if err != nil {
		return err
	}
	next, err := r.judgeAll(ctx, s, tables, c)
	if err != nil {
		return err
	}
	now, err := s.moment(ctx)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := r.finish(ctx, s, next[t.Table], old[t.Table], retyped); err != nil {
			return err
		}
	}
	r.take(tables, old, next, truncated, now)
	return nil
}

// take takes in what a look has found, and marks the tables to be listed again that are not as they were.
func (r *roster) take(tables []TableConfig, old, next map[syncd.Table]*rosterTable, truncated map[syncd.Table]bool, now moment) {
	causes := map[syncd.Table]string{}
	order := make([]syncd.Table, len(tables))
	for i, t := range tables {
		order[i] = t.Table
		n := next[t.Table]
		why := whyRelist(old[t.Table], n, truncated[t.Table])
		if old[t.Table] == nil && len(old) > 0 && n.shape != nil {
			why = "it was added to the configuration"
		}
		if why != "" {
			causes[t.Table] = why
		}
	}
	for t := range old {
		if next[t] == nil {
			causes[t] = "it is synced no more"
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.order, r.looked, r.print = next, order, time.Now(), fingerprintOf(next)
	r.moment = now
	r.looks.Add(1)
	r.cause(causes)
}

// cause marks tables to be listed again, for the reasons that a look has found; and once more those of which that is due.
// r.mu is held.
func (r *roster) cause(causes map[syncd.Table]string) {
	for t, u := range r.again {
		if len(stillRunning(u.open, r.moment.snapshot)) == 0 {
			delete(r.again, t)
			r.relists[t] = relist{why: u.why, at: r.moment.end}
		}
	}
	for t, why := range causes {
		r.relists[t] = relist{why: why, at: r.moment.end}
		if len(stillRunning(r.moment.snapshot, r.moment.snapshot)) > 0 {
			r.again[t] = unsure{why, r.moment.snapshot}
		}
	}
}

// demand marks a table to be listed again, for a reason that lies before at.
func (r *roster) demand(t syncd.Table, why string, at syncd.LSN) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.relists[t] = relist{why: why, at: at}
}

// held gives the position that a marker has to pass before it may tell of all that is demanded; 0 where nothing is.
func (r *roster) held() (at syncd.LSN) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, l := range r.relists {
		if l.told == 0 {
			at = max(at, l.at)
		}
	}
	return at
}

// demanded gives the tables to be listed again that no marker has told of yet and one at through may tell of. whole says
// that these are all, so that a marker which tells of them can vouch for what was seen at the last look.
func (r *roster) demanded(through syncd.LSN) (tables map[syncd.Table]string, seen fingerprint, whole bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	whole = len(r.again) == 0
	for t, l := range r.relists {
		if l.told != 0 {
			continue
		}
		if l.at > through {
			whole = false
			continue
		}
		if tables == nil {
			tables = map[syncd.Table]string{}
		}
		tables[t] = l.why
	}
	return tables, r.print, whole
}

// compare marks the tables to be listed again that are not as they were when the source looked at them whose last marker has
// this fingerprint.
func (r *roster) compare(then string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	causes := map[syncd.Table]string{}
	for t, now := range r.state {
		if _, demanded := r.relists[t]; !demanded && now.shape != nil && r.print.differs(then, t) {
			causes[t] = "it may have changed while no source looked at it"
		}
	}
	r.cause(causes)
}

// told says that the marker at through has told of tables.
func (r *roster) told(tables map[syncd.Table]string, through syncd.LSN) {
	if len(tables) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for t, why := range tables {
		if l := r.relists[t]; l.why == why && l.at <= through {
			l.told = through
			r.relists[t] = l
		}
	}
}

// settled says that all markers up to through are acknowledged; untold that those that were not will never be.
func (r *roster) settled(through syncd.LSN) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t, l := range r.relists {
		if l.told != 0 && l.told <= through {
			delete(r.relists, t)
		}
	}
}

func (r *roster) untold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t, l := range r.relists {
		r.relists[t] = relist{why: l.why, at: l.at}
	}
}

// judgeAll reads the facts and judges them, and brings the publication up to date where anything asks for it.
func (r *roster) judgeAll(ctx context.Context, s *session, tables []TableConfig, c care) (map[syncd.Table]*rosterTable, error) {
	next, err := r.read(ctx, s, tables)
	if err != nil || c == lookOnly || !r.cfg.Manage || s.server.standby {
		return next, err
	}
	r.keep.user = s.server.user
	// What is read again below was kept to nothing yet: a table may have been made anew since.
	keptTo := next
	var want []wanted
	for _, t := range tables {
		if n := next[t.Table]; n.verdict.Refused.none() {
			want = append(want, wanted{n.config, n.facts, n.verdict})
		}
	}
	must := c == keepAnew || r.mustKeep(next)
	if !must {
		if must, err = r.keep.holdsOthers(ctx, s, want); err != nil {
			return nil, err
		}
	}
	if must {
		refused, changed, err := r.keep.Keep(ctx, s, want)
		if err != nil {
			return nil, err
		}
		r.refused, r.retry = refused, time.Now().Add(refusalPatience)
		if changed {
			if next, err = r.read(ctx, s, tables); err != nil {
				return nil, err
			}
		}
	}
	r.kept = keptTo
	for t, why := range r.refused {
		if n := next[t]; n != nil && n.verdict.Refused.none() {
			n.verdict = verdict{Refused: why}
		}
	}
	return next, nil
}

// mustKeep says whether the publication has to be looked after: something changed since it last was (a look that only looks
// may have seen it before), or a statement failed a while ago.
func (r *roster) mustKeep(next map[syncd.Table]*rosterTable) bool {
	if len(r.refused) > 0 && time.Now().After(r.retry) || len(next) != len(r.kept) {
		return true
	}
	for t, n := range next {
		o := r.kept[t]
		if o == nil || !sameFacts(o.facts, n.facts) || !reflect.DeepEqual(o.config, n.config) {
			return true
		}
	}
	return false
}

func (r *roster) read(ctx context.Context, s *session, tables []TableConfig) (map[syncd.Table]*rosterTable, error) {
	facts, err := readTables(ctx, s, r.cfg.Publication, tables)
	if err != nil {
		return nil, err
	}
	w := r.surroundings(s, tables)
	next := map[syncd.Table]*rosterTable{}
	for i, t := range tables {
		next[t.Table] = &rosterTable{config: t, facts: facts[i], verdict: judge(t, facts[i], w)}
	}
	return next, nil
}

func (r *roster) surroundings(s *session, tables []TableConfig) surroundings {
	w := surroundings{
		version: s.server.version, user: s.server.user, publication: r.cfg.Publication,
		manage: r.cfg.Manage && !s.server.standby, standby: s.server.standby,
		configured: map[syncd.Table]bool{},
	}
	for _, t := range tables {
		w.configured[t.Table] = true
	}
	return w
}

// finish makes the shape and the info of a table, or takes them over where nothing changed.
func (r *roster) finish(ctx context.Context, s *session, n, old *rosterTable, retyped bool) error {
	if !n.verdict.Refused.none() {
		n.info = syncd.TableInfo{Table: n.config.Table, Error: n.verdict.Refused.String()}
		return nil
	}
	if old != nil && old.shape != nil && !retyped && reflect.DeepEqual(old.verdict, n.verdict) {
		n.shape, n.info = old.shape, old.info
		return nil
	}
	rel := make([]RelationColumn, len(n.verdict.Columns))
	for i, c := range n.verdict.Columns {
		rel[i] = RelationColumn{Name: []byte(c.Name), Type: c.Type, Typmod: c.Typmod}
	}
	cols, err := r.catalog.Columns(ctx, s, rel)
	if err != nil {
		return fmt.Errorf("read the types of table %s: %w", n.config.Table, err)
	}
	if n.shape, err = newPrintedShape(n.config.Table, cols, n.verdict.Key); err != nil {
		n.verdict = verdict{Refused: refuse("", "%v", err)}
		n.info = syncd.TableInfo{Table: n.config.Table, Error: n.verdict.Refused.String()}
		return nil
	}
	n.info = n.shape.Info()
	return nil
}

// whyRelist says what happened to a table between two looks that the stream does not carry; empty where nothing did, and
// at the first look. truncated says that the stream carried a TRUNCATE of it, which explains new files.
func whyRelist(old, now *rosterTable, truncated bool) string {
	switch {
	case old == nil || now.shape == nil && old.info.Error == now.info.Error:
		return ""
	case now.shape == nil:
		return "it is refused" // consumers ask why, and give up its rows
	case old.shape == nil:
		return "it can be synced now"
	case old.facts.OID != now.facts.OID:
		return "it was made anew"
	case old.shape.Hash() != now.shape.Hash() || !slices.EqualFunc(old.verdict.Columns, now.verdict.Columns, sameNumber):
		return "its columns, their types or its key changed"
	case old.shape != now.shape && old.shape.ages() != now.shape.ages():
		return "labels or fields of its types had other names for a while"
	case old.facts.Published != nil && now.facts.Published != nil && old.facts.Published.Filter != now.facts.Published.Filter:
		return "its row filter changed"
	case memberOf(old) != memberOf(now):
		return "it left the publication and came back"
	case optionsOf(old) != optionsOf(now):
		return "the publication's options changed"
	case old.facts.Parts != now.facts.Parts:
		return "its partitions changed"
	case old.facts.Files == now.facts.Files || truncated:
		return ""
	case old.facts.Kind == "p":
		return "its partitions changed"
	}
	return "it was rewritten"
}

// sameNumber tells a column from one that was made in its place, whose rows have a default of their own.
func sameNumber(a, b columnFacts) bool { return a.Num == b.Num }

func memberOf(t *rosterTable) uint32 {
	if t.facts.Published == nil {
		return 0
	}
	return t.facts.Published.Member
}

func optionsOf(t *rosterTable) string {
	if t.facts.Published == nil {
		return ""
	}
	return t.facts.Published.Options
}

// sameFacts compares two looks at a table, its statistics aside.
func sameFacts(a, b *tableFacts) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.RowBytes, y.RowBytes = 0, 0
	return reflect.DeepEqual(x, y)
}
