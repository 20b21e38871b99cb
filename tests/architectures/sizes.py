"""Small numbers for what configurations call their sizes, so that any model is built within milliseconds."""

VOCABULARY, HIDDEN, HEADS, GROUPS, HEAD_SIZE, IMAGE, PATCH = 128, 32, 4, 2, 8, 32, 8

_NAMES = {
    HIDDEN: """hidden_size d_model n_embd dim emb_dim embed_dim embedding_size d_embed decoder_hidden_size
        encoder_hidden_size text_hidden_size hidden_size_global cross_hidden_size projection_dim out_hidden_size
        pooler_output_size output_hidden_size backbone_hidden_size audio_hidden_size word_embed_proj_dim
        pooler_hidden_size embedding_dim input_embedding_size output_embedding_size attention_hidden_size lru_width
        fpn_hidden_size memory_attention_hidden_size memory_encoder_hidden_size d_latents encoder_hidden_dim
        decoder_hidden_dim mask_feature_size fpn_feature_size condition_dim image_text_hidden_size mit_hidden_size
        pred_hidden_size text_embed_dim output_dim projection_size projection_hidden_size resampler_hidden_size
        latent_size codebook_size codebook_vocab_size audio_vocab_size image_size pretrain_image_size crop_size""",
    64: """intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim n_inner d_ff d_inner dff dim_ff ffn_hidden_size
        mlp_dim decoder_intermediate_size intermediate_size_mlp dense_intermediate_size feed_forward_size
        shared_expert_intermediate_size shared_intermediate_size speech_encoder_intermediate_size t2u_encoder_ffn_dim
        t2u_decoder_ffn_dim projector_hidden_size dim_feedforward encoder_feedforward_dim mit_intermediate_size
        memory_attention_feed_forward_hidden_size memory_attention_mlp_hidden_size expert_ffn_hidden_size
        moe_shared_expert_intermediate_size moe_hidden_size decoder_dim_feedforward encoder_dim_feedforward
        adaptor_intermediate_size projection_intermediate_size n_positions n_ctx max_position_embeddings max_seq_len
        block_size max_source_positions max_target_positions max_encoder_position_embeddings seq_length
        max_decoder_position_embeddings max_2d_position_embeddings max_text_positions position_embedding_size
        original_max_position_embeddings model_max_length max_context_length num_position_embeddings max_img_size""",
    HEADS: """num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads
        attention_heads num_encoder_attention_heads num_decoder_attention_heads encoder_num_attention_heads
        decoder_num_attention_heads decoder_num_heads speech_encoder_attention_heads t2u_encoder_attention_heads
        t2u_decoder_attention_heads conf_num_attention_heads pred_num_attention_heads mit_num_attention_heads
        prompt_num_attention_heads num_self_attention_heads num_cross_attention_heads cross_num_attention_heads
        swa_num_attention_heads num_sliding_attention_heads resampler_heads resampler_n_heads linear_num_heads
        qformer_num_attention_heads memory_attention_num_attention_heads decoder_self_attention_heads
        decoder_cross_attention_heads linear_num_value_heads num_experts n_routed_experts num_local_experts
        moe_num_experts index_n_heads index_topk num_codebooks n_codebooks n_codes_total num_conv_pos_embeddings
        num_codevectors_per_group sliding_window local_attention attention_window_size sliding_window_size window_size
        local_attention_window_len""",
    GROUPS: """num_key_value_heads num_kv_heads num_query_groups swa_num_key_value_heads cross_num_key_value_heads
        num_key_value_attention_heads linear_num_key_heads num_global_key_value_heads num_experts_per_tok
        num_experts_per_token num_selected_experts moe_topk moe_k router_top_k top_k_experts num_feat_extract_layers
        num_conv_pos_embedding_groups num_frames""",
    HEAD_SIZE: """head_dim d_kv d_head attention_head_size kv_channels swa_head_dim dim_head cross_head_dim
        linear_key_head_dim linear_value_head_dim linear_head_dim resampler_head_dim resampler_dim_head
        qk_nope_head_dim qk_rope_head_dim index_head_dim global_head_dim mamba_d_state state_size ssm_state_size
        mamba_chunk_size chunk_size mamba_headdim mamba_head_dim mamba_d_head mamba_num_heads mamba_n_heads
        time_step_rank mamba_dt_rank attention_chunk_size patch_size pos_emb_height pos_emb_width posemb_grid_size
        num_query_tokens num_queries latent_query_num resampler_n_latents image_seq_length mm_tokens_per_image
        tokens_per_image num_latents perceiver_resampler_num_latents perceiver_resampler_num_latents_2d
        resampler_num_latents""",
    6: "v_head_dim",
    16: """qk_head_dim kv_lora_rank q_lora_rank o_lora_rank moe_intermediate_size pronunciation_embed_dim
        shape_embed_dim entity_emb_size hidden_size_per_layer_input laurel_rank adapter_rank bottleneck_size
        entity_vocab_size pronunciation_vocab_size shape_vocab_size max_xpath_tag_unit_embeddings
        max_xpath_subs_unit_embeddings num_qa_labels num_object_labels num_attr_labels codevector_dim
        proj_codevector_dim classifier_proj_size xvector_output_dim speaker_embedding_dim""",
    1: """n_shared_experts num_shared_experts n_group topk_group num_expert_group first_k_dense_replace mamba_n_groups
        n_groups decoder_sparse_step moe_layer_interval o_groups""",
    5: "conv_depthwise_kernel_size conv_kernel_size depthwise_conv_kernel_size",
    80: "num_mel_bins feature_size input_feat_per_channel n_mel_bins input_feat_size",
    VOCABULARY: """vocab_size text_vocab_size src_vocab_size tgt_vocab_size decoder_vocab_size input_vocab_size
        output_vocab_size t2u_vocab_size vocab_size_per_layer_input unpadded_vocab_size char_vocab_size
        text_encoder_vocab_size""",
}
NUMBERS = {name: number for number, names in _NAMES.items() for name in names.split()}
_DEPTHS = """num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers
    num_decoder_layers encoder_num_hidden_layers decoder_num_hidden_layers depth num_blocks layers l_layers x_layers
    r_layers speech_encoder_layers t2u_encoder_layers t2u_decoder_layers conf_num_hidden_layers pred_num_hidden_layers
    mit_num_hidden_layers num_attention_layers qformer_num_hidden_layers resampler_depth num_self_attends_per_block
    num_layers_per_stack memory_attention_num_layers memory_fuser_num_layers num_perceiver_layers"""
DEPTHS = set(_DEPTHS.split())
# Lists that name layers or sizes of the full model.
LISTS = {
    "fullatt_block_indexes": (1,), "deepstack_visual_indexes": (0, 1), "global_attn_indexes": (1,),
    "full_attn_idxs": (1,), "window_block_indices": (0,), "window_block_indexes": (0,), "backbone_out_indices": (0, 1),
    "intermediate_layers_indices": (0, 1), "extract_layers": (0, 1), "intermediate_hidden_state_indices": (0, 1),
    "global_attention_blocks": (1,), "cross_attention_layers": (1,), "rope_scaling_layers": (0, 1),
    "image_grid_pinpoints": ([32, 64], [64, 32]), "spatial_target_layers": (0, 1), "target_layer_ids": (0, 1),
    "mlp_only_layers": (0,), "conv_dim": (32, 32), "conv_stride": (5, 4), "conv_kernel": (10, 8),
    "tdnn_dim": (16, 16), "tdnn_kernel": (3, 1), "tdnn_dilation": (1, 1),
}  # fmt: skip
# Numbers that are None by default and must be there: name: (only beside this one, number).
ABSENT = {
    "num_experts_per_tok": ("moe_intermediate_size", 2),
    "n_routed_experts": ("moe_intermediate_size", 4),
    "n_shared_experts": ("moe_intermediate_size", 1),
    "head_dim": ("num_attention_heads", HEAD_SIZE),
    "num_key_value_heads": ("head_dim", GROUPS),
}
# Tokens with a meaning; placeholders of images and the like count down from 119.
TOKENS = {"pad": 0, "bos": 1, "eos": 2, "unk": 3, "cls": 4, "sep": 5, "mask": 6, "decoder_start": 1,
          "image": 120, "video": 121, "audio": 122, "vision_start": 123, "vision_end": 124}  # fmt: skip
