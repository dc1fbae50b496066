package sharing

// WarningCode names a kind of Warning for machines, for example
// "rename-ignored". The package that raises a warning lists its codes.
type WarningCode string

// Warning says that something in a configuration is legal but does not do
// what it looks like: a field that the reader of the configuration ignores, a
// limit that cannot take effect, a document that lacks a feature gate.
type Warning struct {
	Code    WarningCode `json:"code"`
	Path    string      `json:"path,omitempty"` // where in the document, e.g. "sharing.mps.resources[0].rename"
	Message string      `json:"message"`
	Remedy  string      `json:"remedy,omitempty"`
	Source  SourceID    `json:"source,omitempty"`
}

// String formats the warning on one line.
func (w Warning) String() string {
	s := w.Message
	if w.Path != "" {
		s = w.Path + ": " + s
	}
	if w.Remedy != "" {
		s += " (" + w.Remedy + ")"
	}
	if w.Source != "" {
		s += " [" + string(w.Source) + "]"
	}
	return s
}
