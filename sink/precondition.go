package sink

// Precondition is one thing that a store needs of its file or its server, as syncd check prints it.
type Precondition struct {
	Name   string
	OK     bool
	Detail string // what was found, or what is wrong
	// Mend is what mends it: the statement, the setting. Where OK is true it is advice.
	Mend string
	// Unreachable says that the server could not be asked.
	Unreachable bool
}
