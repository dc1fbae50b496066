package predict

func (r RoutePolicy) String() string                   { return routePolicies.String(r) }
func (r RoutePolicy) MarshalText() ([]byte, error)     { return routePolicies.Text(r) }
func (r *RoutePolicy) UnmarshalText(text []byte) error { return routePolicies.Parse(r, text) }
