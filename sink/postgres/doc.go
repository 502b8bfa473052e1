// Package postgres keeps a cache in another Postgres, in a schema of its own, where others may read its rows with SQL.
//
// Each source table has there a table of syncd's own, whose name begins with _syncd_, with one row for each entry: the columns
// under their own names, with the types that the source's have where the target knows them, else text; the row's JSON, which
// is what HTTP serves; and what orders the entry. A view under the source table's name shows the columns of the rows. (A table
// and a view of it, not two tables: so one statement writes both, and what is read is checked against what SQL readers see,
// by a sum over the columns: a row whose columns were changed counts as gone, until the next comparison brings it back.)
//
// _syncd_state holds the state with the place in the stream. A commit is one transaction, which first moves that row on from
// the commit that it follows. The process that writes holds an advisory lock in its session, so there is one at a time.
// A change of a table's shape alters the table and makes the view anew in the same transaction. A value that the target's
// type does not take turns all columns of its table to text, with a line in the log.
//
// What fails, and what happens then, is in package remote.
package postgres
