package sink

import "github.com/syncd-io/syncd"

// judged are the snapshots of the pages that each table was compared with since it was begun: what a list may rest on. A
// list that began before its table was dropped and begun again has lost its first pages.
type judged map[syncd.Table]map[*syncd.Snapshot]bool

// maxJudged bounds what is remembered of a table whose lists never end.
const maxJudged = 1 << 16

func (j judged) add(name syncd.Table, s *syncd.Snapshot) {
	if j[name] == nil || len(j[name]) >= maxJudged {
		j[name] = map[*syncd.Snapshot]bool{}
	}
	j[name][s] = true
}

// bear says whether the pages of a list were all judged.
func (j judged) bear(l *List) bool {
	for _, s := range l.Snapshots {
		if !j[l.Table][s] {
			return false
		}
	}
	return len(l.Snapshots) > 0
}

// forget drops the pages of a list that has ended.
func (j judged) forget(l *List) {
	for _, s := range l.Snapshots {
		delete(j[l.Table], s)
	}
}
