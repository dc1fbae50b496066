package predict

// String returns "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj" or "down_proj".
func (p Projection) String() string                   { return projections.String(p) }
func (p Projection) MarshalText() ([]byte, error)     { return projections.Text(p) }
func (p *Projection) UnmarshalText(text []byte) error { return projections.Parse(p, text) }
