package forecasting

import "github.com/poolwright/poolwright/provision"

// The codes of what cannot be forecast.
const (
	codeForecastFailed provision.UnknownCode = "ForecastFailed"
	codeImpactUnknown  provision.UnknownCode = "ImpactUnknown"
)
