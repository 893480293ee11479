package child

import (
	"context"
	"errors"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
)

// Forecast is simulate.Compare with the catalog's prices: what the change from before
// to after does, under an engine of these settings. Broken limits, and a crash of
// Karpenter's code over what the snapshots hold, are errors as those of Load are.
func (r *Runner) Forecast(ctx context.Context, settings engine.Settings, before, after provision.ClusterSnapshot) (provision.Forecast, error) {
	raw, err := r.run(ctx, job{verb: verbForecast, doing: "forecasting", exchange: func(in *writer, out *reader) (frame, error) {
		if err := send(in, settings, before, after); err != nil {
			return frame{}, err
		}
		return out.last()
	}})
	if err != nil {
		return provision.Forecast{}, err
	}
	var forecast *provision.Forecast
	if err := utiljson.Unmarshal(raw, &forecast); err != nil {
		return provision.Forecast{}, fmt.Errorf("reading what was forecast: %w", err)
	}
	if forecast == nil {
		return provision.Forecast{}, errors.New("reading the forecast: the response has none")
	}
	return *forecast, nil
}

func serveForecast(ctx context.Context, t *frameExchange) ([]byte, error) {
	settings, before, after, err := receive(t.expect)
	if err != nil {
		return nil, err
	}
	types, err := catalog.Load()
	if err != nil {
		return nil, err
	}
	forecast, err := simulate.Compare(engine.Offline(ctx, settings), before, after, types)
	if err != nil {
		return nil, err
	}
	return encoded(forecast)
}
