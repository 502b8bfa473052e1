package sink

// Promoter is a Store, made by Options.New for a new epoch, that others see too: who opens its file, who reads its server.
type Promoter interface {
	// Promote puts the store in the place of the one that was read until now, in what is kept and in what others see. It is
	// called when all its tables were listed, before readers are given it. After an error the other one is read on, and
	// Promote is called again behind the next commit. Views of the other one stay valid until they are closed.
	Promote() error
}
