package source

import (
	"fmt"

	"github.com/syncd-io/syncd"
)

// selector reads the selector of a request for a page that was read, and takes note of it in the page. It is read by the
// table's shape as it is now; that has to be the page's, since it says how values are compared.
func (l *Lister) selector(p *syncd.Page, text string) (syncd.Filter, error) {
	if text == "" {
		return syncd.Filter{}, nil
	}
	t := l.Watch.roster.get(p.Table)
	if t == nil || t.info.Schema != p.Schema {
		return syncd.Filter{}, errOrigin
	}
	p.Selector = text
	return selectorOf(&t.info, text)
}

func selectorOf(info *syncd.TableInfo, text string) (syncd.Filter, error) {
	if text == "" {
		return syncd.Filter{}, nil
	}
	f, err := syncd.ParseSelector(*info, text)
	if err != nil {
		return f, fmt.Errorf("the selector: %w", err)
	}
	return f, nil
}
