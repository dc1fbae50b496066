package predict

// String returns "graphs", "launched", "mixed" or "filled".
func (c Class) String() string                   { return classes.String(c) }
func (c Class) MarshalText() ([]byte, error)     { return classes.Text(c) }
func (c *Class) UnmarshalText(text []byte) error { return classes.Parse(c, text) }

// String returns "server", "stepper" or "burster".
func (k Kind) String() string                   { return kinds.String(k) }
func (k Kind) MarshalText() ([]byte, error)     { return kinds.Text(k) }
func (k *Kind) UnmarshalText(text []byte) error { return kinds.Parse(k, text) }

func (m Metric) String() string                   { return metrics.String(m) }
func (m Metric) MarshalText() ([]byte, error)     { return metrics.Text(m) }
func (m *Metric) UnmarshalText(text []byte) error { return metrics.Parse(m, text) }
