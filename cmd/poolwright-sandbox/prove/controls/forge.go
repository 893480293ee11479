package controls

// oneComment is that a comment is found again before another is made.
func oneComment() Control {
	return Control{
		Name:    "one-comment",
		Summary: "The comments of a pull request are listed, so that a comment of an earlier process is edited instead of made again.",
		file:    "reconciler/report/forge/internal/comments/comment.go",
		old:     "slices.DeleteFunc(append(all, made...), func",
		by:      "slices.DeleteFunc(append(all[:0:0], made...), func",
		test:    "reconciler/report/forge/internal/comments.TestACrashAfterAnyCallLeavesOneCommentInTheEnd",
	}
}

// maskedSecrets is that the data of Secrets are masked in what is shown.
func maskedSecrets() Control {
	return Control{
		Name:    "masked-secrets",
		Summary: "The data of Secrets are masked in plans and comments.",
		file:    "reconciler/report/internal/mask/mask.go",
		old:     "\t\tcase secret && (k == \"data\" || k == \"stringData\"),\n",
		by:      "\t\tcase secret && k == \"\" && (k == \"data\" || k == \"stringData\"),\n",
		test:    "reconciler/report/internal/mask.TestADifferenceOfSecretsIsShownWithoutThem",
	}
}

// forgeFence is that a replica writes to a forge only while it certainly leads.
func forgeFence() Control {
	return Control{
		Name:    "forge-fence",
		Summary: "A replica that has not renewed its lease in time sends no write to a forge.",
		file:    "reconciler/forgeclient/forgeclient.go",
		old:     "\ttransport := fence(connecting)\n",
		by:      "\t_, transport := fence, http.RoundTripper(connecting)\n",
		test:    "reconciler/forgeclient.TestAClosedFenceKeepsWritesFromEachForge",
	}
}
