package monitoring

import (
	"slices"
	"testing"
)

func TestDashboardsHaveWhatGrafanaNeedsAndNoPanelsThatOverlap(t *testing.T) {
	boards, err := Dashboards(root)
	if err != nil {
		t.Fatal(err)
	}
	uids := map[string]bool{}
	for _, board := range boards {
		if board.UID != "poolwright-"+board.File || board.Title == "" || uids[board.UID] {
			t.Errorf("%s: uid %q, title %q", board.File, board.UID, board.Title)
		}
		uids[board.UID] = true
		if list := board.Templating.List; len(list) < 2 || list[0].Name != "datasource" || list[0].Type != "datasource" {
			t.Errorf("%s has no variable for its data source first", board.File)
		}
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, panel := range board.Panels {
			if ids[panel.ID] || panel.Title == "" {
				t.Errorf("%s: panel %d %q has another's id, or no title", board.File, panel.ID, panel.Title)
			}
			ids[panel.ID] = true
			at := panel.GridPos
			if at.W < 1 || at.H < 1 || at.X < 0 || at.X+at.W > 24 {
				t.Errorf("%s: %q is at %+v", board.File, panel.Title, at)
			}
			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("%s: %q and %q overlap", board.File, panel.Title, other)
					}
					taken[[2]int{x, y}] = panel.Title
				}
			}
			if panel.Type == "row" {
				continue
			}
			if !slices.Contains([]string{"stat", "table", "timeseries"}, panel.Type) || panel.Datasource.UID != "${datasource}" || panel.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s: %q is a %s of %q in %q", board.File, panel.Title, panel.Type, panel.Datasource.UID, panel.FieldConfig.Defaults.Unit)
			}
			if len(panel.Targets) == 0 || slices.ContainsFunc(panel.Targets, func(q struct{ RefID, Expr, LegendFormat string }) bool { return q.RefID == "" || q.Expr == "" }) {
				t.Errorf("%s: %q has no query", board.File, panel.Title)
			}
		}
	}
	if len(boards) != 3 {
		t.Errorf("there are %d dashboards", len(boards))
	}
}
